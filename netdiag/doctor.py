# SPDX-License-Identifier: Apache-2.0
"""What this machine can do and what it lacks, each with its remedy; where it may, it proves the probes.

Looks at the machine as it is and changes nothing: no password is asked for, nothing is loaded without the right to.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from netdiag import assets, manifest, privilege, selftest
from netdiag.ebpf._libbpf import libbpf
from netdiag.errors import NetdiagError
from netdiag.privilege import Means
from netdiag.processes import cgroup2_mount
from netdiag.recorder.functions import PLAIN, TLS
from netdiag.recorder.objects import Objects
from netdiag.tracing import elevation
from netdiag.tracing.elevation import Elevation

__all__ = ["Check", "State", "examine"]

BTF = Path("/sys/kernel/btf/vmlinux")
LOCKDOWN = Path("/sys/kernel/security/lockdown")
UNCHARGED_KERNEL = (5, 11)
"""Since this one, kernel programs are charged to the memory cgroup and no longer to `ulimit -l`."""

_INDISPENSABLE = "tcp"
"""The probe without which there is nothing to trace."""
_SHOWN_MISMATCHES = 6


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    DEGRADED = "degraded"
    """Tracing works; something of it does not, or could not be looked at."""
    MISSING = "missing"
    """Nothing can be traced without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    detail: str
    """What was found, in one sentence."""
    remedy: str | None = None
    """How to get what is missing; None where nothing is, or there is no way."""


def examine() -> list[Check]:
    """Return all checks, what others depend on first. Takes up to a second; needs no rights, says more with them."""
    checks = [_kernel(), _programs(), _btf(), _lockdown(), _libbpf(), _memory(), _cgroup(), _libraries()]
    found = _rights()
    checks += [found[0], *_proof(found[1])]
    return checks


def _kernel() -> Check:
    """Compare the release with the oldest that each default probe accepts."""
    release = os.uname().release
    probes = [probe for probe in manifest.probes() if probe.default]
    refused = {probe.name: probe.kernel for probe in probes if _version(release) < _version(probe.kernel)}
    if not refused:
        return Check(name="kernel", state=State.OK, detail=f"{release} is new enough for all probes")
    newest = max(refused.values(), key=_version)
    detail = f"{release} is too old for {', '.join(sorted(refused))}"
    state = State.MISSING if _INDISPENSABLE in refused else State.DEGRADED
    return Check(name="kernel", state=state, detail=detail, remedy=f"run a kernel of version {newest} or newer")


def _version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else (0,)


def _programs() -> Check:
    """Look for the compiled objects of all probes for this processor."""
    try:
        names = sorted({probe.object for probe in manifest.probes()})
        for name in names:
            assets.bpf_object(name)
    except NetdiagError as error:
        return _missing("kernel programs", error)
    return Check(name="kernel programs", state=State.OK, detail=f"{', '.join(names)} for {os.uname().machine}")


def _btf() -> Check:
    if BTF.exists():
        return Check(name="BTF", state=State.OK, detail=f"{BTF} describes the kernel's types")
    remedy = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as those of the distributions are"
    return Check(name="BTF", state=State.MISSING, detail=f"{BTF} does not exist", remedy=remedy)


def _lockdown() -> Check:
    """Only the mode confidentiality keeps kernel programs from reading what they need."""
    try:
        words = LOCKDOWN.read_text(encoding="ascii").split()
    except FileNotFoundError:
        return Check(name="lockdown", state=State.OK, detail="this kernel has none, or does not show it")
    except OSError as error:
        return Check(name="lockdown", state=State.DEGRADED, detail=f"{LOCKDOWN}: {error.strerror}")
    mode = next((word.strip("[]") for word in words if word.startswith("[")), "none")
    if mode != "confidentiality":
        return Check(name="lockdown", state=State.OK, detail=f"mode {mode}")
    detail = "mode confidentiality forbids kernel programs to read kernel memory"
    remedy = "boot with lockdown=integrity on the kernel's command line"
    return Check(name="lockdown", state=State.MISSING, detail=detail, remedy=remedy)


def _libbpf() -> Check:
    try:
        library = libbpf()
    except NetdiagError as error:
        return _missing("libbpf", error)
    number = f"{library.libbpf_major_version()}.{library.libbpf_minor_version()}"
    return Check(name="libbpf", state=State.OK, detail=f"version {number}")


def _memory() -> Check:
    if _version(os.uname().release) >= UNCHARGED_KERNEL:
        return Check(name="locked memory", state=State.OK, detail="no limit applies: ulimit -l plays no part here")
    detail = "kernel programs count against ulimit -l"
    return Check(name="locked memory", state=State.DEGRADED, detail=detail, remedy="ulimit -l unlimited")


def _cgroup() -> Check:
    mount = cgroup2_mount()
    if mount is not None:
        return Check(name="cgroup v2", state=State.OK, detail=f"mounted at {mount}")
    detail = "not mounted: TLS records, and connects that fail before anything is sent, are not seen"
    remedy = "mount -t cgroup2 none /sys/fs/cgroup, or another folder"
    return Check(name="cgroup v2", state=State.DEGRADED, detail=detail, remedy=remedy)


def _libraries() -> Check:
    """Tell which TLS libraries lie under their usual names, and whether their functions are found cheaply."""
    files = list(Objects(probes=frozenset({TLS, PLAIN})).usual(os.getpid()))
    told = []
    for found in files:
        if found.plaintext:
            siblings = [each.find_version() or "build" for each in files if each.table is found.table]
            version = next((each for each in siblings if not each.startswith("build")), "")
            told.append(f"{found.table.library} {version}".strip() + ("" if found.plain_cheap else " (dearer)"))
    if not told:
        detail = "none under its usual name: those that programs bring along are found when they run"
        return Check(name="TLS libraries", state=State.OK, detail=detail)
    why = "; dearer: the processor steps through an instruction at each call" if "dearer" in "".join(told) else ""
    return Check(name="TLS libraries", state=State.OK, detail=f"requests are seen in {', '.join(told)}{why}")


def _rights() -> tuple[Check, Elevation | None]:
    """Return how the recorder would come by its rights, and the way itself where there is one."""
    rights = privilege.discover()
    try:
        how = elevation.plan(under_sudo=privilege.calling_user() is not None)
    except NetdiagError as error:
        return _missing("rights", error), None
    code = how.program[-1]
    if how.notice:
        remedy = "netdiag as yourself, which elevates nothing but root's copy of the recorder"
        return Check(name="rights", state=State.DEGRADED, detail=how.notice, remedy=remedy), how
    if how.means is not Means.SUDO:
        who = "root" if how.means is Means.ROOT else "the capabilities that were given"
        return Check(name="rights", state=State.OK, detail=f"{rights.explain()}: by {who}"), how
    if shutil.which("sudo", path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/run/wrappers/bin") is None:
        remedy = "install sudo, run netdiag as root, or give the recorder's interpreter the capabilities"
        detail = f"{rights.explain()}, and there is no sudo to ask"
        return Check(name="rights", state=State.MISSING, detail=detail, remedy=remedy), None
    if privilege.no_new_privileges():
        detail = f"{rights.explain()}, and no_new_privs is set for this process: sudo cannot give it any"
        remedy = "run netdiag where sudo works (systemd: NoNewPrivileges=no; containers: allowPrivilegeEscalation)"
        return Check(name="rights", state=State.MISSING, detail=detail, remedy=remedy), None
    asked = "it may ask for your password" if privilege.has_terminal() else "without a terminal it must not ask"
    return Check(name="rights", state=State.OK, detail=f"sudo starts {code}; {asked}"), how


def _proof(how: Elevation | None) -> Iterator[Check]:
    """Yield what attaching and a self-test show; where they would need a password, that they were not tried."""
    if how is None or how.means is Means.SUDO:
        detail = "not tried: only the machine's root, or its recorder, can load kernel programs"
        yield Check(name="self-test", state=State.DEGRADED, detail=detail, remedy=f"sudo {elevation.called()} doctor")
        return
    try:
        outcome = selftest.run(elevation=how)
    except NetdiagError as error:
        yield _missing("self-test", error)
        return
    yield from (_probe(said) for said in outcome.coverage.get("probes", ()))
    if not outcome.mismatches:
        detail = f"{outcome.connections} connections: owners, ports, bytes, sides and instants are right"
        yield Check(name="self-test", state=State.OK, detail=detail)
        return
    shown = list(outcome.mismatches[:_SHOWN_MISMATCHES])
    if len(outcome.mismatches) > len(shown):
        shown.append(f"{len(outcome.mismatches) - len(shown)} more")
    remedy = "report it with the kernel's version: results on this kernel are not to be trusted"
    yield Check(name="self-test", state=State.MISSING, detail="; ".join(shown), remedy=remedy)


def _probe(said: Mapping[str, Any]) -> Check:
    """Return what the recorder said of one probe."""
    name, state = str(said["name"]), said["state"]
    if state == "attached":
        titles = {probe.name: probe.title for probe in manifest.probes()}
        return Check(name=f"probe {name}", state=State.OK, detail=titles.get(name, "attached"))
    worst = State.MISSING if name == _INDISPENSABLE and state == "unavailable" else State.DEGRADED
    detail = f"{state}: {said.get('reason') or 'the reason is not known'}"
    return Check(name=f"probe {name}", state=worst, detail=detail, remedy=said.get("remedy"))


def _missing(name: str, error: NetdiagError) -> Check:
    return Check(name=name, state=State.MISSING, detail=error.message, remedy=error.hint)

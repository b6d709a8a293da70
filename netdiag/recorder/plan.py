# SPDX-License-Identifier: Apache-2.0
"""What a trace loads: from the names of probes and the target to kernel objects, knobs and map entries.

Runs in the child that loads, so that manifests and BTF take no memory of the recorder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from netdiag import assets, btf, manifest
from netdiag.ebpf.handover import Job, Plan
from netdiag.errors import Unsupported, UsageError
from netdiag.manifest import Probe
from netdiag.recorder.targets import cgroup_root, filters

__all__ = ["job"]

_FIRST_PID_NAMESPACE = 0xEFFFFFFC


def job(names: list[str], target: Mapping[str, Any], options: Mapping[str, Any]) -> Job:
    """Return the job for the named probes, or the default set.

    Raises UsageError for an unknown probe or a target that makes no sense, Unsupported where the kernel has no BTF.
    """
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        message = "this kernel has no BTF (/sys/kernel/btf/vmlinux), which the kernel programs need"
        raise Unsupported(message, hint="use a kernel built with CONFIG_DEBUG_INFO_BTF=y (5.12 or newer)")
    known = {probe.name: probe for probe in manifest.probes()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"there is no probe '{unknown[0]}'", hint=f"the probes are {', '.join(sorted(known))}")
    chosen = filters(target)
    knobs: dict[str, int | bytes] = {**chosen.knobs, "nd_pidns": _pid_namespace()}
    gap = options.get("burst_gap_ns")
    if isinstance(gap, int) and gap > 0:
        knobs["nd_burst_gap_ns"] = gap
    wanted = [probe for probe in known.values() if (probe.name in names if names else probe.default)]
    plans = [_plan(probe) for probe in wanted if options.get("plaintext") or not _to_front(probe)]
    knobs["nd_tls_calls"] = int(any(plan.name == "ssl" for plan in plans))
    knobs["nd_plain"] = int(any(plan.name == "plain" for plan in plans))
    return Job(
        plans=plans,
        knobs=knobs,
        entries={"targets": [p.to_bytes(4, "little") for p in chosen.pids], "hosts": chosen.hosts},
        cgroup=cgroup_root(),
        multi=options.get("uprobe_multi") is not False,
    )


def _to_front(probe: Probe) -> bool:
    """Tell whether a probe needs somebody who takes its records apart."""
    return any(stream.to_front for stream in probe.streams)


def _pid_namespace() -> int:
    """Return the inode of this process's PID namespace, 0 for the machine's first (include/linux/proc_ns.h)."""
    inode = os.stat("/proc/self/ns/pid").st_ino
    return 0 if inode == _FIRST_PID_NAMESPACE else inode


def _plan(probe: Probe) -> Plan:
    path = assets.bpf_object(probe.object)
    layouts = btf.structs(path, [stream.struct for stream in probe.streams])
    streams = [
        {
            "map": s.map,
            "recorded": s.recorded,
            "to_front": s.to_front,
            "layout": layouts[s.struct].in_ring(stream=s.number, name=s.name).to_json(),
        }
        for s in probe.streams
    ]
    return Plan(
        name=probe.name,
        path=path,
        optional=frozenset(a.program for a in probe.attach if not a.required),
        iterators=tuple(a.program for a in probe.attach if a.section.startswith("iter/")),
        about={
            "streams": streams,
            "gives": {a.program: a.gives for a in probe.attach},
            "required": [a.program for a in probe.attach if a.required],
        },
    )

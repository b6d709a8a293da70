# SPDX-License-Identifier: Apache-2.0
"""Each check of the doctor, on machines that lack one thing each."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from netdiag import doctor
from netdiag.doctor import State
from netdiag.errors import NotPermitted, Unsupported
from netdiag.privilege import Means, Rights
from netdiag.recorder.objects import Objects
from netdiag.selftest import Outcome
from netdiag.tracing.elevation import Elevation

ATTACHED = {"state": "attached", "reason": None, "remedy": None}
COVERAGE = {"probes": [{"name": "process", **ATTACHED}, {"name": "tcp", **ATTACHED}]}


def fails(error):
    def raises(*_args, **_kwargs):
        raise error

    return raises


def kernel(monkeypatch, release):
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(release=release, machine="x86_64"))


@pytest.fixture
def way(monkeypatch):
    """Let the recorder be started by the given means."""

    def by(means, notice=None):
        how = Elevation(means=means, program=("python3", "launch.py"), notice=notice)
        monkeypatch.setattr("netdiag.tracing.elevation.plan", lambda **_: how)
        return how

    return by


@pytest.mark.parametrize(
    ("release", "state"),
    [
        ("6.18.44-cloud", State.OK),
        ("6.6.0", State.OK),
        ("6.5.13-arch1", State.DEGRADED),
        ("5.12.0", State.DEGRADED),
        ("5.4.0", State.MISSING),
        ("4.18.0-553.el8", State.MISSING),
        ("nonsense", State.MISSING),
    ],
)
def test_the_kernel_is_compared_with_what_each_default_probe_needs(monkeypatch, release, state):
    kernel(monkeypatch, release)
    needs = (("tcp", "5.12", True), ("late", "6.6", True), ("optional", "9.0", False))
    probes = [SimpleNamespace(name=name, kernel=oldest, default=default) for name, oldest, default in needs]
    monkeypatch.setattr("netdiag.manifest.probes", lambda: probes)
    check = doctor._kernel()
    assert check.state is state
    assert release in check.detail
    assert ("late" in check.detail) is (state is not State.OK)
    assert ("6.6" in str(check.remedy)) is (state is not State.OK)


def test_the_kernel_that_runs_here_is_told(monkeypatch):
    kernel(monkeypatch, "999.0")
    assert doctor._kernel().state is State.OK


def test_programs_that_were_not_built(monkeypatch):
    monkeypatch.setattr("netdiag.assets.bpf_object", fails(Unsupported("not built", hint="run scripts/setup")))
    check = doctor._programs()
    assert (check.state, check.detail, check.remedy) == (State.MISSING, "not built", "run scripts/setup")


def test_a_kernel_without_btf(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "BTF", tmp_path / "vmlinux")
    assert doctor._btf().state is State.MISSING
    (tmp_path / "vmlinux").touch()
    assert doctor._btf().state is State.OK


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("[none] integrity confidentiality", State.OK),
        ("none [integrity] confidentiality", State.OK),
        ("none integrity [confidentiality]", State.MISSING),
        (None, State.OK),
    ],
)
def test_lockdown(monkeypatch, tmp_path, text, state):
    monkeypatch.setattr(doctor, "LOCKDOWN", tmp_path / "lockdown")
    if text is not None:
        (tmp_path / "lockdown").write_text(text)
    assert doctor._lockdown().state is state


def test_lockdown_that_cannot_be_read(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "LOCKDOWN", tmp_path)
    assert doctor._lockdown().state is State.DEGRADED


def test_libbpf(monkeypatch):
    library = SimpleNamespace(libbpf_major_version=lambda: 1, libbpf_minor_version=lambda: 4)
    monkeypatch.setattr(doctor, "libbpf", lambda: library)
    assert doctor._libbpf().detail == "version 1.4"
    monkeypatch.setattr(doctor, "libbpf", fails(Unsupported("no libbpf", hint="apt install libbpf1")))
    assert doctor._libbpf().remedy == "apt install libbpf1"


def test_locked_memory_matters_to_old_kernels_only(monkeypatch):
    kernel(monkeypatch, "5.10.0-28-amd64")
    assert doctor._memory().state is State.DEGRADED
    kernel(monkeypatch, "5.11.0")
    assert doctor._memory().state is State.OK


class Library:
    def __init__(self, name, *, plaintext, cheap):
        self.table = type("Table", (), {"library": name})
        self.plaintext, self.plain_cheap = plaintext, cheap

    def find_version(self):
        return "3.0.1"


@pytest.mark.parametrize(
    ("libraries", "words"),
    [
        ((), "none under its usual name"),
        ((Library("openssl", plaintext="calls", cheap=True),), "requests are seen in openssl 3.0.1"),
        ((Library("gnutls", plaintext="symbols", cheap=False),), "gnutls 3.0.1 (dearer); dearer: the processor"),
        ((Library("openssl", plaintext=None, cheap=True),), "none under"),  # libcrypto
    ],
)
def test_tls_libraries_are_told(monkeypatch, libraries, words):
    monkeypatch.setattr(Objects, "usual", lambda _self, _pid: libraries)
    check = doctor._libraries()
    assert words in check.detail
    assert check.state is State.OK


def test_without_cgroup_v2_less_is_seen(monkeypatch):
    monkeypatch.setattr(doctor, "cgroup2_mount", lambda: None)
    check = doctor._cgroup()
    assert check.state is State.DEGRADED
    assert "TLS" in check.detail


def test_rights_by_root_and_by_capabilities(way):
    for means in (Means.ROOT, Means.CAPABILITIES):
        how = way(means)
        check, found = doctor._rights()
        assert (check.state, found) == (State.OK, how)


def test_root_that_runs_code_of_others_is_told(way):
    way(Means.ROOT, "root runs code that not only root can change: /home/joe belongs to joe")
    check, _ = doctor._rights()
    assert check.state is State.DEGRADED
    assert "/home/joe" in check.detail


def test_sudo_that_is_there_and_that_is_not(way, monkeypatch):
    rights = Rights(uid=7, missing=("CAP_BPF",), in_user_namespace=False)
    monkeypatch.setattr("netdiag.privilege.discover", lambda: rights)
    how = way(Means.SUDO)
    monkeypatch.setattr("netdiag.privilege.no_new_privileges", lambda: False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/sudo")
    check, found = doctor._rights()
    assert (check.state, found) == (State.OK, how)
    monkeypatch.setattr("netdiag.privilege.no_new_privileges", lambda: True)
    check, found = doctor._rights()
    assert (check.state, found) == (State.MISSING, None)
    assert "no_new_privs" in check.detail
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    check, found = doctor._rights()
    assert (check.state, found) == (State.MISSING, None)
    assert "CAP_BPF" in check.detail


def test_a_recorder_that_may_not_be_elevated_is_told_with_the_remedy(monkeypatch):
    error = NotPermitted("code of joe", hint="sudo netdiag doctor --install-recorder")
    monkeypatch.setattr("netdiag.tracing.elevation.plan", fails(error))
    check, found = doctor._rights()
    assert (check.state, check.remedy, found) == (State.MISSING, "sudo netdiag doctor --install-recorder", None)


def test_nothing_is_tried_that_would_need_a_password(way, monkeypatch):
    monkeypatch.setattr("netdiag.selftest.run", fails(AssertionError("it was tried")))
    monkeypatch.setattr("sys.argv", ["/opt/nd/bin/netdiag"])
    for how in (None, way(Means.SUDO)):
        (check,) = doctor._proof(how)
        assert (check.state, check.remedy) == (State.DEGRADED, "sudo /opt/nd/bin/netdiag doctor")


def proof(monkeypatch, how, *, coverage=COVERAGE, mismatches=()):
    outcome = Outcome(coverage=coverage, connections=6, mismatches=tuple(mismatches))
    monkeypatch.setattr("netdiag.selftest.run", lambda **_: outcome)
    return list(doctor._proof(how))


def test_a_self_test_that_is_passed(way, monkeypatch):
    checks = proof(monkeypatch, way(Means.ROOT))
    assert [check.name for check in checks] == ["probe process", "probe tcp", "self-test"]
    assert {check.state for check in checks} == {State.OK}


def test_every_mismatch_is_named_up_to_a_handful(way, monkeypatch):
    wrong = [f"connection {number}, client: pid is 1, not 2" for number in range(9)]
    check = proof(monkeypatch, way(Means.ROOT), mismatches=wrong)[-1]
    assert check.state is State.MISSING
    assert check.detail.startswith("; ".join(wrong[:6]))
    assert check.detail.endswith("3 more")


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [
        ("tcp", "unavailable", State.MISSING),
        ("tcp", "partial", State.DEGRADED),
        ("tls", "unavailable", State.DEGRADED),
        ("process", "unavailable", State.DEGRADED),
    ],
)
def test_a_probe_that_could_not_be_attached(name, state, expected, way, monkeypatch):
    coverage = {"probes": [{"name": name, "state": state, "reason": "no such hook", "remedy": "a newer kernel"}]}
    check = proof(monkeypatch, way(Means.ROOT), coverage=coverage)[0]
    assert (check.state, check.remedy) == (expected, "a newer kernel")
    assert "no such hook" in check.detail


def test_a_recorder_that_cannot_start_is_told(way, monkeypatch):
    monkeypatch.setattr("netdiag.selftest.run", fails(NotPermitted("no CAP_BPF", hint="run it through sudo")))
    (check,) = doctor._proof(way(Means.ROOT))
    assert (check.state, check.detail, check.remedy) == (State.MISSING, "no CAP_BPF", "run it through sudo")


def test_the_whole_examination_goes_on_whatever_is_missing(way, monkeypatch, tmp_path):
    way(Means.SUDO)
    monkeypatch.setattr(doctor, "BTF", tmp_path / "none")
    checks = doctor.examine()
    names = [check.name for check in checks]
    assert names[:4] == ["kernel", "kernel programs", "BTF", "lockdown"]
    assert names[-1] == "self-test"
    assert len(set(names)) == len(names)
    assert os.geteuid() == os.getuid(), "nobody was elevated"

# SPDX-License-Identifier: Apache-2.0
"""The words of errors: what failed, why, and the remedy; and a libbpf that is missing or too old."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from netdiag.ebpf import _libbpf
from netdiag.ebpf._libbpf import failure, libbpf
from netdiag.errors import NotPermitted, Unsupported

EPERM, EINVAL, ENOMEM = 1, 22, 12


@pytest.fixture
def fresh():
    """Forget the library that was loaded, before and after."""
    libbpf.cache_clear()
    yield
    libbpf.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_missing_library_is_named_with_its_packages(monkeypatch):
    def absent(*_args, **_kwargs):
        raise OSError("no such file")

    monkeypatch.setattr("ctypes.CDLL", absent)
    with pytest.raises(Unsupported, match=r"libbpf\.so\.1") as raised:
        libbpf()
    assert "apt install libbpf1" in str(raised.value.hint)


@pytest.mark.usefixtures("fresh")
def test_an_old_library_is_named_by_what_it_lacks(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: SimpleNamespace())
    with pytest.raises(Unsupported, match="too old"):
        libbpf()


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("[none] integrity confidentiality\n", "none"),
        ("none [integrity] confidentiality\n", "integrity"),
        ("none integrity [confidentiality]\n", "confidentiality"),
        ("\n", None),
    ],
)
def test_the_mode_of_lockdown(monkeypatch, tmp_path, text, mode):
    path = tmp_path / "lockdown"
    path.write_text(text)
    monkeypatch.setattr(_libbpf, "open", lambda *_, **__: path.open(), raising=False)
    assert _libbpf._lockdown() == mode


@pytest.fixture
def log(monkeypatch):
    """Return what libbpf said, to fill; with no lockdown in the way."""
    _libbpf.clear_log()
    monkeypatch.setattr(_libbpf, "_lockdown", lambda: None)
    yield _libbpf._log
    _libbpf.clear_log()


@pytest.mark.usefixtures("log")
def test_a_missing_right_names_the_capabilities():
    error = failure("loading", -EPERM)
    assert isinstance(error, NotPermitted)
    assert "CAP_BPF" in str(error.hint)


@pytest.mark.usefixtures("log")
def test_lockdown_is_named_where_it_is_the_cause(monkeypatch):
    monkeypatch.setattr(_libbpf, "_lockdown", lambda: "confidentiality")
    error = failure("loading", -EPERM)
    assert "lockdown" in error.message
    assert "integrity" in str(error.hint)


@pytest.mark.usefixtures("log")
def test_a_lack_of_memory_names_the_limit():
    assert "ulimit -l" in str(failure("loading", -ENOMEM).hint)


def test_the_verifier_is_quoted_by_its_last_lines(log):
    log.extend(["libbpf: prog 'x': BPF program load failed: Permission denied", "-- BEGIN PROG LOAD LOG --"])
    log.extend(f"{number}: (85) call bpf_helper" for number in range(40))
    log.extend(["R1 type=scalar expected=fp", "processed 40 insns", "-- END PROG LOAD LOG --"])
    error = failure("loading", -EPERM)
    assert isinstance(error, Unsupported)
    assert error.message.splitlines()[-1] == "R1 type=scalar expected=fp"
    assert len(error.message.splitlines()) == 13


def test_other_failures_carry_the_last_useful_word_of_libbpf(log):
    log.extend(["libbpf: prog 'hook': failed to find kernel BTF type", "libbpf: failed to load object 'tcp'"])
    assert "failed to find kernel BTF type" in failure("loading", -EINVAL).message

# SPDX-License-Identifier: Apache-2.0
"""Which code is elevated, and how, for each kind of caller."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag import privilege
from netdiag.errors import NotPermitted
from netdiag.privilege import Means, Rights
from netdiag.recorder import install
from netdiag.tracing import elevation
from netdiag.tracing.elevation import plan, rooted_python

ORDINARY = Rights(uid=1000, missing=("CAP_BPF",), in_user_namespace=False)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return what sets rights and code: an ordinary user whose installation is root's, to begin with."""
    monkeypatch.setattr(privilege, "discover", lambda: ORDINARY)
    monkeypatch.setattr(install, "code_root", lambda: Path("/opt/netdiag"))
    monkeypatch.setattr(install, "foreign_code", lambda _root: None)
    monkeypatch.setattr(elevation, "rooted_python", lambda: Path("/usr/bin/python3.11"))
    return monkeypatch


def test_an_ordinary_user_asks_sudo_for_roots_installation(world):
    assert world is not None
    found = plan(under_sudo=False)
    assert (found.means, found.notice) == (Means.SUDO, None)
    assert found.program == (
        *("/usr/bin/python3.11", "-I", "-S", "-B"),
        "/opt/netdiag/netdiag/recorder/launch.py",
    )


def test_for_a_users_installation_roots_copy_is_taken(world):
    world.setattr(install, "foreign_code", lambda _root: "/opt belongs to alice")
    world.setattr(install, "copy_of", lambda _root: Path("/usr/local/lib/netdiag/abc"))
    assert plan(under_sudo=False).program[-1] == "/usr/local/lib/netdiag/abc/netdiag/recorder/launch.py"


def test_without_a_copy_both_ways_are_told(world):
    world.setattr(install, "foreign_code", lambda _root: "/opt belongs to alice")
    world.setattr(install, "copy_of", lambda _root: None)
    with pytest.raises(
        NotPermitted, match=r"CAP_BPF is missing .*only code that belongs to root: /opt belongs"
    ) as raised:
        plan(under_sudo=False)
    assert raised.value.hint is not None
    assert "sudo netdiag doctor --install-recorder" in raised.value.hint
    assert "sudo netdiag trace" in raised.value.hint


@pytest.mark.parametrize(
    ("argv", "word"),
    [("/home/a/.venv/bin/netdiag", "/home/a/.venv/bin/netdiag"), ("/usr/bin/netdiag", "netdiag"), ("x.py", "netdiag")],
)
def test_the_advice_names_the_command_as_sudo_finds_it(monkeypatch, argv, word):
    monkeypatch.setattr(sys, "argv", [argv, "trace"])
    assert elevation.called() == word


def test_who_has_the_capabilities_needs_no_sudo(world):
    world.setattr(privilege, "discover", lambda: Rights(uid=1000, missing=(), in_user_namespace=False))
    found = plan(under_sudo=False)
    assert found.means is Means.CAPABILITIES
    assert found.program[0] == str(Path(sys.executable).resolve())


def test_an_interpreter_with_file_capabilities_needs_no_sudo(world, tmp_path):
    given = tmp_path / "bin" / "python3"
    given.parent.mkdir()
    given.touch(mode=0o755)
    world.setattr(install, "code_root", lambda: tmp_path)
    world.setattr(privilege, "has_file_capabilities", lambda path: path == given)
    world.setattr(elevation, "foreign_hand", lambda _path: None)
    found = plan(under_sudo=False)
    assert (found.means, found.program[0]) == (Means.CAPABILITIES, str(given))
    world.setattr(elevation, "foreign_hand", lambda path: f"{path} belongs to alice")
    assert plan(under_sudo=False).means is Means.SUDO


def test_root_starts_what_it_was_started_as_and_under_sudo_one_line_says_whose_it_is(world):
    world.setattr(privilege, "discover", lambda: Rights(uid=0, missing=(), in_user_namespace=False))
    world.setattr(elevation, "foreign_hand", lambda path: f"{path} belongs to alice")
    assert plan(under_sudo=False).notice is None
    found = plan(under_sudo=True)
    assert found.means is Means.ROOT
    assert found.notice == "root runs code that not only root can change: /opt/netdiag/netdiag belongs to alice"
    world.setattr(elevation, "foreign_hand", lambda _path: None)
    assert plan(under_sudo=True).notice is None


def test_root_without_capabilities_is_told_which(world):
    world.setattr(privilege, "discover", lambda: Rights(uid=0, missing=("CAP_BPF",), in_user_namespace=False))
    with pytest.raises(NotPermitted, match="CAP_BPF is missing"):
        plan(under_sudo=False)


def test_an_interpreter_of_a_user_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3.11"))
    (tmp_path / "python3.11").touch()
    system = Path("/usr/bin/python3")
    if not system.exists() or elevation._too_old(system.resolve()):
        pytest.skip("needs the distribution's python3, 3.11 or newer")
    monkeypatch.setattr(elevation, "foreign_hand", lambda path: "mine" if str(path).startswith(str(tmp_path)) else None)
    assert rooted_python() == system.resolve()
    monkeypatch.setattr(elevation, "foreign_hand", lambda path: f"{path} belongs to alice")
    with pytest.raises(NotPermitted, match="no Python that belongs to root alone"):
        rooted_python()


@pytest.mark.parametrize(("name", "old"), [("python3.9", True), ("python3.11", False), ("python3", True)])
def test_only_an_interpreter_of_a_known_age_will_do(name, old):
    assert (elevation._too_old(Path("/elsewhere") / name) is not None) == old

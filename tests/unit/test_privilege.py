# SPDX-License-Identifier: Apache-2.0
"""What this process may, who called sudo, and whose files are root's alone. Real changes: tests/kernel."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("privileges are Linux's", allow_module_level=True)

from netdiag import privilege
from netdiag.errors import NotPermitted
from netdiag.privilege import Means, User, calling_user, discover, foreign_entry, foreign_hand

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make files of others")
IDENTITY = "         0          0 4294967295\n"


def status(capabilities: int, uid: int = 1000) -> str:
    return f"Name:\tpython3\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities:016x}\n"


def mask(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        (0, ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")),
        (mask(38, 39), ("CAP_NET_ADMIN",)),
        (mask(12, 38, 39), ()),
        (mask(12, 21), ()),
        (mask(21), ("CAP_NET_ADMIN",)),
        ((1 << 41) - 1, ()),
    ],
)
def test_the_missing_capabilities_are_named(held, missing):
    rights = discover(status(held), IDENTITY)
    assert (rights.missing, rights.may_record) == (missing, not missing)


def test_one_sentence_says_what_is_missing():
    assert discover(status(0), IDENTITY).explain() == ("CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are missing (user 1000)")
    assert discover(status(mask(38, 39), uid=7), IDENTITY).explain() == "CAP_NET_ADMIN is missing (user 7)"
    assert discover(status(mask(12, 21)), IDENTITY).explain() == "this process may load kernel programs"


def test_capabilities_of_a_user_namespace_do_not_count():
    rights = discover(status((1 << 41) - 1, uid=0), "         0       1000          1\n")
    assert not rights.may_record
    assert rights.explain().startswith("root of a user namespace")


def test_this_process_can_be_looked_at():
    assert discover().uid == os.geteuid()


@pytest.mark.parametrize(
    "environ",
    [{}, {"SUDO_UID": "1000"}, {"SUDO_UID": "x", "SUDO_GID": "1"}, {"SUDO_UID": "0", "SUDO_GID": "0"},
     {"SUDO_UID": "-5", "SUDO_GID": "5"}],
)  # fmt: skip
def test_without_a_caller_of_sudo_there_is_none(environ, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert calling_user(environ) is None


def test_the_caller_of_sudo_is_known_with_home_and_shell(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    nobody = pwd.getpwnam("nobody")
    environ = {"SUDO_UID": str(nobody.pw_uid), "SUDO_GID": str(nobody.pw_gid), "SUDO_USER": "ignored"}
    expected = User(uid=nobody.pw_uid, gid=nobody.pw_gid, name="nobody", home=nobody.pw_dir, shell=nobody.pw_shell)
    assert calling_user(environ) == expected
    unknown = calling_user({"SUDO_UID": "123456789", "SUDO_GID": "9"})
    assert unknown is not None
    assert (unknown.uid, unknown.gid, unknown.name, unknown.home) == (123456789, 9, None, "/")


def test_only_root_can_have_been_called_by_sudo(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert calling_user({"SUDO_UID": "1001", "SUDO_GID": "1001"}) is None


def test_the_systems_files_are_roots_alone():
    assert foreign_hand(Path("/usr/bin/env")) is None


def test_a_file_that_is_not_there_cannot_be_trusted(tmp_path):
    assert "cannot be looked at" in str(foreign_hand(tmp_path / "missing"))


@AS_ROOT
@pytest.mark.parametrize(
    ("mode", "gid", "trusted"), [(0o644, 0, True), (0o664, 0, True), (0o664, 9, False), (0o646, 0, False)]
)
def test_a_file_that_others_can_write_is_not_roots_alone(tmp_path, mode, gid, trusted):
    file = tmp_path / "file"
    file.touch()
    os.chown(file, 0, gid)
    file.chmod(mode)
    assert (foreign_hand(file) is None) == trusted


@AS_ROOT
def test_every_folder_on_the_way_counts_and_links_are_followed(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    (tmp_path / "link").symlink_to(inner / "file")
    assert foreign_hand(tmp_path / "link") is None
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(tmp_path / "outer", nobody, 0)
    assert foreign_hand(tmp_path / "link") == f"{tmp_path}/outer belongs to nobody"
    os.chown(tmp_path / "outer", 0, 0)
    (tmp_path / "outer").chmod(0o777)
    assert foreign_hand(tmp_path / "link") == f"{tmp_path}/outer can be written by others than root"
    (tmp_path / "outer").chmod(0o1777)
    assert foreign_hand(tmp_path / "link") is None
    assert foreign_entry(tmp_path / "outer") is not None


def test_a_file_without_capabilities_has_none(tmp_path):
    (tmp_path / "python3").touch()
    assert not privilege.has_file_capabilities(tmp_path / "python3")
    assert not privilege.has_file_capabilities(tmp_path / "missing")


def test_without_sudo_the_missing_capabilities_are_told(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name, path: None if path else "")
    with pytest.raises(NotPermitted, match="there is no sudo to ask"):
        privilege.acquire(["/bin/true"], Means.SUDO, errors=None)


@pytest.mark.parametrize(("terminal", "words"), [(True, ["-b", "-p"]), (False, ["-b", "-n"])])
def test_sudo_asks_only_where_there_is_a_terminal(monkeypatch, terminal, words):
    monkeypatch.setattr(shutil, "which", lambda _name, path: f"/usr/bin/sudo{path[:0]}")
    monkeypatch.setattr(privilege, "has_terminal", lambda: terminal)
    assert privilege._sudo()[:3] == ["/usr/bin/sudo", *words]


def test_an_elevated_program_sees_a_clean_environment_and_has_its_own_session(tmp_path):
    code = "import os, sys; sys.stderr.write(f'{sorted(os.environ)} {os.getcwd()} {os.getsid(0) == os.getpid()}')"
    with (tmp_path / "said").open("wb") as said:
        process = privilege.acquire([sys.executable, "-I", "-S", "-c", code], Means.ROOT, errors=said)
        assert process.wait() == 0
    assert (tmp_path / "said").read_text() == "['LC_ALL', 'PATH'] / True"


@AS_ROOT
def test_what_is_dropped_is_gone():
    code = "from netdiag import privilege as p; p.drop(None); print(p._held(), open('/proc/self/status').read())"
    environment = {**os.environ, "PYTHONPATH": str(Path(privilege.__file__).parents[1])}
    said = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True, text=True)
    assert said.stdout.startswith("False")
    assert "NoNewPrivs:\t1" in said.stdout
    assert "CapBnd:\t0000000000000000" in said.stdout


def test_a_process_that_can_gain_no_rights_says_so():
    code = "from netdiag.privilege import no_new_privileges as found; print(found())"
    forbidden = f"import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); {code}"  # PR_SET_NO_NEW_PRIVS
    said = [subprocess.check_output([sys.executable, "-c", one], text=True).strip() for one in (code, forbidden)]
    own = Path("/proc/self/status").read_text()
    assert said == [str("NoNewPrivs:\t1" in own), "True"]

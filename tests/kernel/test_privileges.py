# SPDX-License-Identifier: Apache-2.0
"""Who is who: an ordinary user with sudo, root by sudo, plain root, capabilities; and whose code is elevated.

A user and a sudoers file are made for the test and removed after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import pwd
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from netdiag.processes.masking import MASK
from netdiag.recording.reader import Recording, read
from tests.kernel.harness import programs_of

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
USER = "netdiag-front-t"
PASSWORD = "correct horse"
NO_CAPABILITY = "0" * 16
PATIENCE_S = 20.0


@dataclass
class Place:
    """A copy of the code, and an ordinary user to run it."""

    code: Path
    home: Path
    uid: int
    gid: int
    sudoers: Path

    def allow(self, rule: str) -> None:
        """Write the user's line for sudo."""
        self.sudoers.write_text(f"{USER} {rule}\n")
        self.sudoers.chmod(0o440)

    def give_to(self, uid: int) -> None:
        """Make the code belong to `uid`."""
        for path in (self.code, *self.code.rglob("*")):
            os.chown(path, uid, uid)

    def front(self, spec: dict[str, Any]) -> list[str]:
        """Return the command that traces as `spec` says."""
        whole = {"fake": True, "command": ["sh", "-c", "cat /proc/self/status; env"]} | spec
        file = self.home / "spec.json"
        file.write_text(json.dumps(whole))
        return [PYTHON, "-B", str(self.code / "tests/fakes/front.py"), str(file), str(self.home / "result.json")]

    def result(self) -> dict[str, Any]:
        """Return what the front told."""
        told: dict[str, Any] = json.loads((self.home / "result.json").read_text())
        return told

    def facts(self) -> dict[str, Any]:
        """Return what the fake recorder wrote into the user's last recording."""
        (recording,) = (self.home / ".local/state/netdiag").iterdir()
        assert (recording.stat().st_uid, recording.stat().st_mode & 0o777) == (self.uid, 0o600)
        lines = recording.read_bytes().split(b"\n")[1:]
        return {name: value for line in lines if line for name, value in json.loads(line).items()}


@pytest.fixture
def place() -> Iterator[Place]:
    if shutil.which("useradd") is None or shutil.which("sudo") is None:
        pytest.skip("needs useradd and sudo")
    folder = Path(tempfile.mkdtemp(prefix="netdiag-priv-"))
    folder.chmod(0o755)
    subprocess.run(["userdel", "-f", USER], check=False, stderr=subprocess.DEVNULL)
    home = folder / "home"
    subprocess.run(["useradd", "-m", "-d", home, "-s", "/bin/sh", "-G", "games", USER], check=True)
    subprocess.run(["chpasswd"], input=f"{USER}:{PASSWORD}\n", text=True, check=True)
    entry = pwd.getpwnam(USER)
    code = folder / "code"
    leave_out = shutil.ignore_patterns("__pycache__", "cli", "analysis", "tables", "render")
    shutil.copytree(ROOT / "netdiag", code / "netdiag", ignore=leave_out)
    shutil.copytree(ROOT / "tests/fakes", code / "tests/fakes", ignore=leave_out)
    for name in ("bpf/build", "probes"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, code / name)
    made = Place(code, home, entry.pw_uid, entry.pw_gid, Path("/etc/sudoers.d/netdiag-front-t"))
    (folder / "closed").mkdir(mode=0o700)
    with (code / "netdiag/errors.py").open("a") as file:
        file.write(f"# {folder.name}\n")  # no copy that is installed on this machine has this digest
    made.give_to(0)
    try:
        yield made
    finally:
        made.sudoers.unlink(missing_ok=True)
        subprocess.run(["userdel", "-f", USER], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder)


def as_user(place: Place, arguments: list[str], **popen: Any) -> subprocess.CompletedProcess[str]:
    """Run something as the ordinary user, without a terminal."""
    return subprocess.run(
        arguments,
        user=place.uid,
        group=place.gid,
        extra_groups=os.getgrouplist(USER, place.gid),
        cwd=place.home,
        env={
            "PATH": f"{place.home}/bin:{place.home.parent}/closed:/usr/bin:/bin",
            "HOME": str(place.home),
            "LANG": "C.UTF-8",
        }
        | popen.pop("env", {}),
        text=True,
        capture_output=True,
        start_new_session=True,
        timeout=PATIENCE_S,
        check=False,
        **popen,
    )


def fields(text: str) -> dict[str, str]:
    """Return the lines `Name:\\tvalue` and `NAME=value` of what CMD printed."""
    found = {}
    for line in text.splitlines():
        for mark in (":\t", "="):
            if mark in line:
                name, _, value = line.partition(mark)
                found[name] = value.strip()
                break
    return found


def ids(place: Place) -> str:
    return "\t".join([str(place.uid)] * 4)


# An ordinary user


def test_only_the_recorder_goes_through_sudo(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    ran = as_user(place, place.front({}), env={"OPENAI_API_KEY": "k"})
    assert ran.returncode == 0, place.result()
    command = fields(ran.stdout)
    assert (command["Uid"], command["CapEff"]) == (ids(place), NO_CAPABILITY)
    assert command["OPENAI_API_KEY"] == "k"
    assert not any(name.startswith("SUDO_") for name in command)
    me = place.facts()["me"]
    assert me["uid"] == 0
    assert me["environ"].get("PYTHONPATH") is None
    assert place.result()["after"]["Uid"] == ids(place)


def test_somebody_who_may_not_use_sudo_is_told_which_capabilities_are_missing(place):
    ran = as_user(place, place.front({}))
    result = place.result()
    assert ran.returncode == 4
    assert ran.stdout == ""
    assert result["error"].startswith("sudo did not start the recorder: sudo: a password is required")
    assert result["hint"].startswith("CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are missing")


def test_without_rights_the_command_runs_if_asked(place):
    ran = as_user(place, place.front({"if_unavailable": "run", "command": ["sh", "-c", "exit 5"]}))
    assert ran.returncode == 5
    assert place.result()["notices"][0].startswith("not traced: sudo did not start the recorder")


def test_code_of_the_user_is_never_elevated_by_netdiag_itself(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    place.give_to(place.uid)
    ran = as_user(place, place.front({}))
    result = place.result()
    assert (ran.returncode, ran.stdout) == (4, "")
    assert f"{place.code}" in result["error"]
    assert f"belongs to {USER}" in result["error"]
    assert "sudo netdiag doctor --install-recorder" in result["hint"]
    assert "sudo netdiag trace" in result["hint"]


def installed(place: Place) -> Path:
    """Make root's copy of the place's code and return its folder."""
    install = f"""
import sys; sys.path.append({str(place.code)!r})
from netdiag.recorder import install
print(install.install())
"""
    arguments = [PYTHON, "-I", "-B", "-c", install]
    return Path(subprocess.run(arguments, text=True, stdout=subprocess.PIPE, check=True).stdout.strip())


def remove(copy: Path) -> None:
    """Remove a copy, and the folder of copies if it was the only one."""
    shutil.rmtree(copy)
    with contextlib.suppress(OSError):
        copy.parent.rmdir()


def test_roots_copy_of_the_recorder_is_elevated_in_place_of_the_users_code(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    place.give_to(place.uid)
    copy = installed(place)
    try:
        modes = {path.stat().st_mode & 0o777 for path in copy.rglob("*") if path.is_file()}
        assert modes == {0o644}
        assert {path.stat().st_uid for path in (copy, *copy.rglob("*"))} == {0}
        ran = as_user(place, place.front({}))
        assert ran.returncode == 0, place.result()
        (copy / "netdiag/errors.py").chmod(0o666)
        assert as_user(place, place.front({})).returncode == 4
    finally:
        remove(copy)


@pytest.mark.skipif(shutil.which("setcap") is None, reason="needs setcap")
def test_an_interpreter_with_file_capabilities_records_without_sudo(place):
    place.give_to(place.uid)
    copy = installed(place)
    try:
        given = copy / "bin" / "python3"
        given.parent.mkdir()
        shutil.copy(Path(PYTHON).resolve(), given)
        os.chown(given, 0, place.gid)
        given.chmod(0o750)
        subprocess.run(["setcap", "cap_bpf,cap_perfmon,cap_net_admin+ep", given], check=True)
        ran = as_user(place, place.front({"fake": False, "command": [PYTHON, "-S", "-c", CONNECTING, "2"]}))
        assert (ran.returncode, ran.stdout) == (0, "done\n"), place.result()
        assert recorded(place).records("tcp") is not None
    finally:
        remove(copy)


def test_the_password_is_asked_for_on_the_terminal_and_the_command_gets_its_input(place):
    place.allow("ALL=(root) ALL")
    code = "import os; assert os.tcgetpgrp(0) == os.getpgrp(); print('got', input()); raise SystemExit(6)"
    pid, terminal = at_a_terminal(place, {"command": [PYTHON, "-S", "-c", code]})
    seen = read_until(terminal, b"recorder: ")
    os.write(terminal, PASSWORD.encode() + b"\n")
    time.sleep(0.5)
    os.write(terminal, b"my line\n")
    seen += read_until(terminal, b"got my line")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 6, seen
    assert seen.count(b"password for") == 1


def read_until(fd: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        assert select.select([fd], [], [], PATIENCE_S)[0], seen
        try:
            seen += os.read(fd, 4096)
        except OSError as error:
            raise AssertionError(seen) from error
    return seen


def test_ctrl_c_at_the_question_for_the_password_ends_it_before_anything_began(place):
    place.allow("ALL=(root) ALL")
    pid, terminal = at_a_terminal(place, {"command": ["touch", str(place.home / "started")]})
    read_until(terminal, b"recorder: ")
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert not (place.home / "started").exists()
    assert not list((place.home / ".local/state/netdiag").iterdir())


def at_a_terminal(place: Place, spec: dict[str, Any]) -> tuple[int, int]:
    """Start a front as the ordinary user in a terminal of its own; return its pid and the terminal."""
    arguments = place.front(spec)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.home)
        os.initgroups(USER, place.gid)
        os.setgid(place.gid)
        os.setuid(place.uid)
        os.execve(arguments[0], arguments, {"PATH": "/usr/bin:/bin", "HOME": str(place.home)})
    return pid, terminal


def test_capabilities_make_sudo_needless(place):
    needed = "+bpf,+perfmon,+net_admin"
    arguments = [
        *("setpriv", "--reuid", str(place.uid), "--regid", str(place.gid), "--init-groups"),
        *("--inh-caps", needed, "--ambient-caps", needed, "--bounding-set", "+all"),
        *place.front({"command": ["true"]}),
    ]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place.home)}
    assert subprocess.run(arguments, env=environment, cwd=place.home, check=False).returncode == 0, place.result()
    me, after = place.facts()["me"], place.result()["after"]
    assert (me["uid"], me["cap_eff"] != NO_CAPABILITY) == (place.uid, True)
    assert after["CapPrm"] == after["CapEff"] == after["CapAmb"] == NO_CAPABILITY


# All of netdiag through sudo


def test_under_sudo_the_front_and_the_command_are_the_caller(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    own = place.home / "bin"
    own.mkdir()
    (own / "ndtool").write_text("#!/bin/sh\ncat /proc/self/status; env\n")
    (own / "ndtool").chmod(0o755)
    arguments = ["sudo", *place.front({"command": ["ndtool"]})]
    ran = as_user(place, arguments, env={"VIRTUAL_ENV": "/venv", "OPENAI_API_KEY": "k"})
    assert ran.returncode == 0, place.result()
    command, result = fields(ran.stdout), place.result()
    for status in (command, result["after"]):
        assert (status["Uid"], status["Gid"]) == (ids(place), "\t".join([str(place.gid)] * 4))
        assert set(map(int, status["Groups"].split())) == set(os.getgrouplist(USER, place.gid))
        assert status["CapEff"] == status["CapPrm"] == NO_CAPABILITY
    assert result["after"]["NoNewPrivs"] == "1"
    assert result["home"] == command["HOME"] == str(place.home)
    assert (command["VIRTUAL_ENV"], command["OPENAI_API_KEY"]) == ("/venv", "k")
    assert command["PATH"].startswith(f"{own}:")
    assert not any(name.startswith("SUDO_") for name in command)
    assert result["notices"] == [f"ndtool runs {own}/ndtool; for root it would be not found"]
    assert place.facts()["me"]["uid"] == 0


def test_under_sudo_as_root_keeps_root_and_warns_of_another_program(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    own = place.home / "bin"
    own.mkdir()
    (own / "cat").symlink_to("/bin/false")
    spec = {"command": ["cat", "/proc/self/status"], "as_root": True}
    ran = as_user(place, ["sudo", *place.front(spec)])
    assert ran.returncode == 0, place.result()
    assert fields(ran.stdout)["Uid"] == "0\t0\t0\t0"
    assert place.result()["notices"] == [f"cat runs /usr/bin/cat; for {USER} it would be {own}/cat"]
    assert place.result()["after"]["Uid"] == ids(place)


def test_under_sudo_one_line_says_that_root_runs_the_users_code(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    place.give_to(place.uid)
    ran = as_user(place, ["sudo", *place.front({"command": ["true"]})])
    assert ran.returncode == 0, place.result()
    (notice,) = place.result()["notices"]
    assert notice.startswith("root runs code that not only root can change: ")
    assert USER in notice


def test_under_sudo_a_status_and_a_signal_come_through(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    ran = as_user(place, ["sudo", *place.front({"command": ["sh", "-c", "kill -9 $$"]})])
    assert ran.returncode == 137


# Plain root


def test_as_root_the_front_keeps_no_capability_and_the_command_all(place):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    environment |= {"HOME": str(place.home), "XDG_STATE_HOME": str(place.home)}
    ran = subprocess.run(place.front({}), env=environment, text=True, stdout=subprocess.PIPE, check=True)
    after, command = place.result()["after"], fields(ran.stdout)
    assert after["Uid"] == "0\t0\t0\t0"
    assert {value for name, value in after.items() if name.startswith("Cap")} == {NO_CAPABILITY}
    mine = fields(Path("/proc/self/status").read_text())
    assert command["CapEff"] == mine["CapEff"] != NO_CAPABILITY
    assert command["NoNewPrivs"] == mine["NoNewPrivs"]


def test_root_of_a_user_namespace_is_told_so(place):
    ran = as_user(place, ["unshare", "--user", "--map-root-user", *place.front({"command": ["true"]})])
    if "unshare" in ran.stderr:
        pytest.skip(f"needs user namespaces: {ran.stderr.strip()}")
    assert ran.returncode == 4
    assert place.result()["error"].startswith("root of a user namespace may not load kernel programs")


# The real recorder


CONNECTING = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
for _ in range(int(sys.argv[1])):
    client = socket.create_connection(server.getsockname())
    accepted = server.accept()[0]
    client.sendall(b"hello")
    client.close()
    accepted.close()
print("done", flush=True)
if len(sys.argv) > 2:
    import time
    time.sleep(float(sys.argv[2]))
"""


def programs() -> set[int]:
    """Return the ids of all kernel programs that are loaded now."""
    said = subprocess.run(["bpftool", "-j", "prog", "show"], stdout=subprocess.PIPE, check=True).stdout
    return {program["id"] for program in json.loads(said)}


def child_of(parent: int, word: str) -> int:
    """Return the child of `parent` that has `word` on its command line."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    raise AssertionError(f"{parent} has no child with {word}")


def recorded(place: Place) -> Recording:
    (recording,) = (place.home / ".local/state/netdiag").iterdir()
    assert recording.stat().st_uid == place.uid
    return read(recording)


@pytest.mark.parametrize("sudo", [[], ["sudo"]], ids=["only the recorder by sudo", "all by sudo"])
def test_a_user_records_their_own_command_from_its_first_connection(place, sudo):
    place.allow("ALL=(root) NOPASSWD: ALL")
    spec = {"fake": False, "command": [PYTHON, "-S", "-c", CONNECTING, "7"]}
    ran = as_user(place, [*sudo, *place.front(spec)])
    assert (ran.returncode, ran.stdout) == (0, "done\n"), place.result()
    recording = recorded(place)
    assert recording.end is not None
    assert recording.end["exit_reason"] == "command-exited"
    assert recording.header["command"]["argv"] == [PYTHON, "-S", "-c", MASK, MASK]
    assert recording.facts_of("command")[-1]["exit_status"] == 0
    events = recording.records("tcp")
    assert events is not None
    me = recording.facts_of("command")[-1]["pid"]
    clients = {int(cookie) for cookie, tgid, role in zip(events["cookie"], events["tgid"], events["role"], strict=True)
               if tgid == me and role == 1}  # fmt: skip
    assert len(clients) == 7


@pytest.mark.skipif(shutil.which("bpftool") is None, reason="needs bpftool")
def test_a_killed_front_leaves_nothing_attached_and_the_command_running(place):
    front = place.front({"fake": False, "command": [PYTHON, "-S", "-c", CONNECTING, "3", "30"]})
    environment = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(place.home), "HOME": str(place.home)}
    with subprocess.Popen(front, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        time.sleep(1.2)  # the recording is readable up to the last second
        held = programs_of(child_of(process.pid, "launch.py"))
        assert held
        assert held <= programs()
        process.kill()
        process.wait()
        deadline = time.monotonic() + PATIENCE_S
        while programs() & held:
            assert time.monotonic() < deadline, "kernel programs are left"
            time.sleep(0.05)
    (file,) = (place.home / "netdiag").iterdir()
    recording = read(file)
    assert recording.records("tcp") is not None
    command = recording.facts_of("command")[0]["pid"]
    assert Path(f"/proc/{command}/comm").read_text().startswith("python3")
    os.kill(command, 9)


def test_ctrl_c_at_the_terminal_is_the_commands_and_not_the_recorders(place):
    place.allow("ALL=(root) NOPASSWD: ALL")
    code = f"{CONNECTING}\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    sys.exit(6)\n"
    pid, terminal = at_a_terminal(place, {"fake": False, "command": [PYTHON, "-S", "-c", code, "3", "0"]})
    seen = read_until(terminal, b"done")
    time.sleep(0.2)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 6, seen
    assert (place.result()["exit_reason"], place.result()["notices"]) == ("command-exited", [])
    end = recorded(place).end
    assert end is not None
    assert end["exit_reason"] == "command-exited"

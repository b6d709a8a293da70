# SPDX-License-Identifier: Apache-2.0
"""Privileges in three verbs: discover what this process may, acquire a recorder that may, drop what is left.

Nothing here parses what a stranger wrote. ctypes is used for the two calls that Python lacks: capset and prctl.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from netdiag.errors import NotPermitted

__all__ = [
    "CLEAN_ENVIRONMENT",
    "Means",
    "Rights",
    "User",
    "acquire",
    "become",
    "calling_user",
    "discover",
    "drop",
    "foreign_entry",
    "foreign_hand",
    "has_file_capabilities",
    "has_terminal",
    "no_new_privileges",
]

CLEAN_ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
"""All that an elevated process gets to see of an environment."""

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39}
_NEEDED = ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")
_IMPLIED_BY_SYS_ADMIN = ("CAP_BPF", "CAP_PERFMON")

_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

_SUDO_PROMPT = "[sudo] password for %p, to start netdiag's recorder: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What this process may do, as far as recording needs it."""

    uid: int
    missing: tuple[str, ...]
    """The capabilities that recording needs and this process lacks."""
    in_user_namespace: bool
    """Whether the capabilities count only in a user namespace: BPF asks for those of the machine."""

    @property
    def may_record(self) -> bool:
        """Whether a recorder started by this process, as it is, could load its programs."""
        return not self.missing and not self.in_user_namespace

    def explain(self) -> str:
        """Return one sentence: what is missing, or that nothing is."""
        if self.in_user_namespace:
            return "root of a user namespace may not load kernel programs: the machine's own root is needed"
        if not self.missing:
            return "this process may load kernel programs"
        return f"{_listed(self.missing)} {'is' if len(self.missing) == 1 else 'are'} missing (user {self.uid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Whom CMD and the front belong to."""

    uid: int
    gid: int
    name: str | None
    """None where the user database does not know the uid."""
    home: str
    shell: str


class Means(StrEnum):
    """How the recorder comes by its rights."""

    ROOT = "root"
    """This process is root and starts it."""
    CAPABILITIES = "capabilities"
    """This process, or the interpreter's file, was given the capabilities."""
    SUDO = "sudo"
    """Through sudo, which asks on the terminal where there is one."""


def discover(status: str | None = None, uid_map: str | None = None) -> Rights:
    """Return the rights of this process.

    `status` and `uid_map` are the texts of the files of that name in /proc/self, read when not given.
    """
    fields = dict(line.split(":\t", 1) for line in (status or _proc_self("status")).splitlines() if ":\t" in line)
    effective = int(fields["CapEff"], 16)
    held = {name for name, number in _CAPABILITIES.items() if effective >> number & 1}
    if "CAP_SYS_ADMIN" in held:
        held |= set(_IMPLIED_BY_SYS_ADMIN)
    identity = (uid_map or _proc_self("uid_map")).split() in ([], ["0", "0", "4294967295"])
    return Rights(
        uid=int(fields["Uid"].split()[1]),
        missing=tuple(name for name in _NEEDED if name not in held),
        in_user_namespace=not identity,
    )


def calling_user(environ: Mapping[str, str] = os.environ) -> User | None:
    """Return who called sudo, or None where this process is not root or nobody did (or root itself)."""
    if os.geteuid() != 0:
        return None
    try:
        uid, gid = int(environ["SUDO_UID"]), int(environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    if uid <= 0 or gid < 0:
        return None
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(uid=uid, gid=gid, name=None, home="/", shell="/bin/sh")  # noqa: S604 - a field of that name
    return User(uid=uid, gid=gid, name=entry.pw_name, home=entry.pw_dir, shell=entry.pw_shell or "/bin/sh")


def acquire(program: Sequence[str], means: Means, *, errors: int | IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Start `program` (absolute path first) with privileges, apart from the terminal; its stderr goes to `errors`.

    By sudo the returned process is sudo in front of the terminal: it ends with 0 once the user has proved who they
    are and the program runs by itself, else with another status. Otherwise it is the program. Raises NotPermitted
    where there is no sudo.
    """
    argv = list(program)
    if means is Means.SUDO:
        argv = [*_sudo(), *program]
    elif means is Means.CAPABILITIES:
        _keep_capabilities_over_exec()
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        cwd="/",
        env=dict(CLEAN_ENVIRONMENT),
        start_new_session=means is not Means.SUDO,
    )


def become(user: User) -> None:
    """Take on the user, group and supplementary groups of `user`, for good. Only root can."""
    if user.name is None:
        os.setgroups([user.gid])
    else:
        os.initgroups(user.name, user.gid)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)


def drop(user: User | None) -> None:
    """Give up every privilege, for good: become `user` where given, hold no capability, gain none by exec.

    Does nothing in a process that has none. Capabilities belong to threads: call it while there is one thread.
    """
    if os.geteuid() != 0 and not _held():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    if user is not None:
        become(user)
        os.environ.update(HOME=user.home, SHELL=user.shell, USER=user.name or str(user.uid))
        os.environ["LOGNAME"] = os.environ["USER"]
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _capset(libc, permitted=0, inheritable=0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _held():
        raise NotPermitted("the capabilities of this process could not be dropped")


def foreign_hand(path: Path) -> str | None:
    """Return who but root could change what is at `path`, or None where nobody can.

    Every folder on the way counts. A sticky one such as /tmp passes, for others cannot replace root's entries in it.
    """
    try:
        real = path.resolve(strict=True)
        for entry in (real, *real.parents):
            reason = foreign_entry(entry, is_folder_of_others=entry != real)
            if reason is not None:
                return reason
    except OSError as error:
        return f"{path} cannot be looked at ({error.strerror})"
    return None


def foreign_entry(entry: Path, *, is_folder_of_others: bool = False) -> str | None:
    """Return who but root could change this one file or folder, or None.

    `is_folder_of_others`: only what root owns in it matters, so that a sticky folder may be written by everybody.
    """
    found = entry.lstat()
    if found.st_uid != 0:
        return f"{entry} belongs to {_user_name(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):
        return None
    writable = found.st_mode & stat.S_IWOTH or (found.st_gid != 0 and found.st_mode & stat.S_IWGRP)
    if writable and not (is_folder_of_others and found.st_mode & stat.S_ISVTX):
        return f"{entry} can be written by others than root"
    return None


def has_file_capabilities(path: Path) -> bool:
    """Say whether the file at `path` was given capabilities (setcap)."""
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def _sudo() -> list[str]:
    """Return sudo's part of the command line: in the background once it has asked, never asking without a terminal."""
    sudo = shutil.which("sudo", path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/run/wrappers/bin")
    if sudo is None:
        raise NotPermitted(
            f"{discover().explain()}, and there is no sudo to ask",
            hint="run netdiag as root, or give the recorder's interpreter the capabilities",
        )
    return [sudo, "-b", *(["-p", _SUDO_PROMPT] if has_terminal() else ["-n"]), "--"]


def no_new_privileges() -> bool:
    """Say whether no program that this process starts can gain rights, as sandboxes and services may have it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.split() == ["NoNewPrivs:", "1"] for line in lines)


def has_terminal() -> bool:
    """Say whether this process has a terminal on which a question can be asked."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _held() -> bool:
    """Say whether this thread holds any capability."""
    lines = _proc_self("status").splitlines()
    return any(int(line.split()[1], 16) for line in lines if line.startswith(("CapPrm", "CapEff", "CapInh", "CapAmb")))


def _keep_capabilities_over_exec() -> None:
    """Make the needed capabilities ambient, so that they outlive the exec of the recorder's interpreter."""
    libc = ctypes.CDLL(None, use_errno=True)
    permitted = int(next(line.split()[1] for line in _proc_self("status").splitlines() if "CapPrm" in line), 16)
    if permitted == 0:
        return
    _capset(libc, permitted=permitted, inheritable=permitted)
    for number in range(64):
        if permitted >> number & 1:
            libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0)


def _capset(libc: ctypes.CDLL, *, permitted: int, inheritable: int) -> None:
    """Set this thread's capabilities: capset(2), struct __user_cap_header_struct and two __user_cap_data_struct."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    words = [(mask >> shift) & 0xFFFFFFFF for shift in (0, 32) for mask in (permitted, permitted, inheritable)]
    if libc.capset(header, (ctypes.c_uint32 * 6)(*words)) != 0:
        number = ctypes.get_errno()
        raise NotPermitted(f"capabilities could not be set: {os.strerror(number)}")


def _proc_self(name: str) -> str:
    return Path("/proc/thread-self", name).read_text(encoding="ascii", errors="replace")


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

# SPDX-License-Identifier: Apache-2.0
"""Which program is elevated, and how: only root's code is, unless the user started all of netdiag as root."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from netdiag import privilege
from netdiag.errors import NotPermitted
from netdiag.privilege import Means, foreign_hand
from netdiag.recorder import install

__all__ = ["Elevation", "called", "plan"]

_FLAGS = ("-I", "-S", "-B")
"""Isolated, without site packages, writing no bytecode into anybody's folder."""

_OLDEST = (3, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elevation:
    """How the recorder will be started."""

    means: Means
    program: tuple[str, ...]
    """Interpreter, its flags and the file it runs; the socket and the uid follow."""
    notice: str | None
    """What the user should know about the code that is elevated, in one line."""


def plan(*, under_sudo: bool) -> Elevation:
    """Return how the recorder is started. Raises NotPermitted where that may not be.

    `under_sudo`: this process is root because the user called sudo with all of netdiag.
    """
    rights = privilege.discover()
    here = install.code_root()
    if rights.uid == 0:
        if not rights.may_record:
            hint = "run netdiag as root of the machine, or in a privileged container"
            raise NotPermitted(rights.explain(), hint=hint)
        return _as_root(here, under_sudo=under_sudo)
    if rights.may_record:
        return Elevation(means=Means.CAPABILITIES, program=_program(Path(sys.executable).resolve(), here), notice=None)
    code = _rooted_code(here, rights)
    given = code / "bin" / "python3"
    if privilege.has_file_capabilities(given) and os.access(given, os.X_OK) and foreign_hand(given) is None:
        return Elevation(means=Means.CAPABILITIES, program=_program(given, code), notice=None)
    return Elevation(means=Means.SUDO, program=_program(rooted_python(), code), notice=None)


def rooted_python() -> Path:
    """Return an interpreter that only root can change: the running one, else the system's. Raises NotPermitted."""
    own = Path(sys.executable).resolve()
    reasons = []
    for path in (own, Path("/usr/bin/python3"), *(Path(f"/usr/bin/python3.{minor}") for minor in range(19, 10, -1))):
        if not path.exists():
            continue
        real = path.resolve()
        reason = foreign_hand(real) or _library_hand(real) or _too_old(real)
        if reason is None:
            return real
        reasons.append(reason)
    raise NotPermitted(
        f"no Python that belongs to root alone can run the recorder: {'; '.join(dict.fromkeys(reasons))}",
        hint="install the distribution's python3 (3.11 or newer)",
    )


def _as_root(here: Path, *, under_sudo: bool) -> Elevation:
    interpreter = Path(sys.executable).resolve()
    reason = next((hand for path in (here / "netdiag", interpreter) if (hand := foreign_hand(path))), None)
    notice = f"root runs code that not only root can change: {reason}" if under_sudo and reason else None
    return Elevation(means=Means.ROOT, program=_program(interpreter, here), notice=notice)


def _rooted_code(here: Path, rights: privilege.Rights) -> Path:
    """Return the folder of the code to elevate: this installation, or root's copy of the very same code."""
    reason = install.foreign_code(here)
    if reason is None:
        return here
    copy = install.copy_of(here)
    if copy is not None:
        return copy
    raise NotPermitted(
        f"{rights.explain()}, and netdiag elevates only code that belongs to root: {reason}",
        hint=f"install root's copy of the recorder, once: sudo {called()} doctor --install-recorder"
        f"; or run all of netdiag as root, your own decision: sudo {called()} trace …",
    )


def called() -> str:
    """Return how sudo would find the running command: by its path where that is not one that sudo searches."""
    path = Path(sys.argv[0])
    if path.name != "netdiag" or str(path.parent) in ("/usr/local/bin", "/usr/bin", "/bin"):
        return "netdiag"
    return shlex.quote(str(path.absolute()))


def _program(interpreter: Path, code: Path) -> tuple[str, ...]:
    return (str(interpreter), *_FLAGS, str(code / "netdiag" / "recorder" / "launch.py"))


def _library_hand(interpreter: Path) -> str | None:
    """Return who but root could change the interpreter's standard library."""
    version = re.fullmatch(r"python(3\.\d+)", interpreter.name)
    library = interpreter.parent.parent / "lib" / interpreter.name if version else Path(os.__file__).parent
    return foreign_hand(library / "os.py")


def _too_old(interpreter: Path) -> str | None:
    version = re.fullmatch(r"python3\.(\d+)", interpreter.name)
    if interpreter == Path(sys.executable).resolve() or (version and (3, int(version.group(1))) >= _OLDEST):
        return None
    return f"{interpreter} may be older than Python {'.'.join(map(str, _OLDEST))}"

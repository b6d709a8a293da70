# SPDX-License-Identifier: Apache-2.0
"""A front for tests: `front.py SPEC RESULT` traces as the JSON in SPEC says and writes what happened to RESULT.

trace() gives up privileges and forks: it needs a process of its own. `fake` in SPEC takes the fake recorder in place of
the real one, `elevates_nothing` starts it as who we are; `armed_file` is written once CMD was let go.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from netdiag.errors import NetdiagError
from netdiag.privilege import Means
from netdiag.tracing import Progress, Target, TraceRequest, elevation, trace
from netdiag.tracing.elevation import Elevation

FAKE = Path(__file__).resolve().parent / "recorder.py"


def write_whole(path: Path, text: str) -> None:
    """Write a file that is seen with all of its content, or not at all."""
    fresh = path.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.rename(path)


def capabilities() -> dict[str, str]:
    """Return whose this process is and what it may still do."""
    lines = (line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return {name: value for name, value, *_ in lines if name.startswith(("Cap", "NoNewPrivs", "Uid", "Gid", "Groups"))}


def program_of_fake(interpreter: Path, code: Path) -> tuple[str, ...]:
    """Return how the fake is started, whatever `code` is installed."""
    assert code.is_dir()
    return (str(interpreter), "-I", "-S", "-B", str(FAKE))


def plan_without_privileges(*, under_sudo: bool) -> Elevation:
    """Return how the fake is started by somebody who may not elevate anything."""
    assert not under_sudo
    return Elevation(means=Means.ROOT, program=program_of_fake(Path(sys.executable), FAKE.parent), notice=None)


def main(spec_path: str, result_path: str) -> int:
    """Trace, tell, and return the status that the command line would end with."""
    spec: dict[str, Any] = json.loads(Path(spec_path).read_text())
    extra = {name: spec.pop(name) for name in ("armed_file",) if name in spec}
    elevates_nothing = spec.pop("elevates_nothing", False)
    if spec.pop("fake", False):
        elevation._program = program_of_fake
        if elevates_nothing and os.geteuid() != 0:
            elevation.plan = plan_without_privileges
    result = os.open(result_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    notices: list[str] = []
    states: list[str] = []

    def progress(now: Progress) -> None:
        if now.state not in states:
            states.append(now.state)
            if now.state == "tracing" and "armed_file" in extra:
                write_whole(Path(extra["armed_file"]), str(now.command_pid))

    words: dict[str, Any] = {name: tuple(value) for name, value in spec.pop("target", {}).items()}
    target = Target(**words)
    save = spec.pop("save", None)
    request = TraceRequest(target=target, save=Path(save) if save else None, **spec)
    began = time.monotonic()
    try:
        traced = trace(request, progress, notices.append)
        told: dict[str, Any] = dataclasses.asdict(traced)
        told["recording"] = str(traced.recording) if traced.recording else None
        status = traced.command_status or (130 if traced.recording is None else 0)
    except NetdiagError as error:
        told = {"error": error.message, "hint": error.hint}
        status = error.exit_code
    told |= {"notices": notices, "states": states, "after": capabilities(), "home": os.environ.get("HOME")}
    told["took_s"] = time.monotonic() - began
    os.write(result, json.dumps(told).encode())
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""A recorder without a kernel: speaks the protocol, writes what it heard as JSON lines, misbehaves when told to.

The options of the start message say how: `arm_s` (wait before armed), `error` (report it instead of armed), `die_s`
(be killed so long after armed), `deaf` (never answer the stop), `die_at_start`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from netdiag.recorder.link import Link


def status_of_self() -> dict[str, Any]:
    """Return who this process is, for tests to look at."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {
        "uid": os.getuid(),
        "pid": os.getpid(),
        "session": os.getsid(0),
        "cap_eff": fields["CapEff"],
        "cwd": str(Path.cwd()),
        "environ": dict(os.environ),
        "isolated": sys.flags.isolated,
    }


def write(fd: int, **fact: Any) -> None:
    """Append one line to the recording."""
    os.write(fd, json.dumps(fact).encode() + b"\n")


def main(arguments: list[str]) -> int:
    """Serve one front and return the exit status."""
    _, path, _, uid = arguments  # --socket PATH --uid UID
    with Link.connect(path, uid=int(uid)) as link:
        start, (recording, *others) = link.receive(timeout_s=10.0)
        for fd in others:
            os.close(fd)
        options = start["options"]
        os.write(recording, b"NETDIAG\0\n")
        write(recording, start=start, me=status_of_self())
        if options.get("die_at_start"):
            sys.stderr.write("the fake was told to die\n")
            return 9
        if "error" in options:
            link.send({"say": "error", **options["error"]})
            return 1
        if select.select([link], [], [], options.get("arm_s", 0.0))[0]:
            return 0  # the front did not want to wait
        write(recording, armed_ns=time.monotonic_ns())
        link.send({"say": "armed", "at_ns": time.monotonic_ns(), "coverage": {"tier": "fake"}})
        return serve(link, recording, options)


def serve(link: Link, recording: int, options: dict[str, Any]) -> int:
    """Wait for the stop, the front's end or the moment to be killed."""
    if not select.select([link], [], [], options.get("die_s"))[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        stop, _ = link.receive()
    except EOFError:
        write(recording, front="gone")
        return 0
    if options.get("deaf"):
        with contextlib.suppress(EOFError, TimeoutError):
            while link.receive(timeout_s=30.0):  # until the front hangs up
                pass
        return 0
    write(recording, stop=stop)
    link.send({"say": "ended"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

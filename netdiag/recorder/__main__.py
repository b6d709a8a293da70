# SPDX-License-Identifier: Apache-2.0
"""The privileged process: attach, drain the rings into the recording, say so, end.

Started isolated (`python -I`), it trusts nothing of the user's but the protocol: no environment, no working
directory, no path from the user. Standard library only, so that it stays small and starts fast.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

if __name__ == "__main__" and not __package__:  # `python -I FILE` leaves the package's own folder out of sys.path
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from netdiag.ebpf.memory import hold_little, leave_no_core
from netdiag.errors import NetdiagError, UsageError
from netdiag.recorder.link import Link

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Serve one trace over the socket that the front named; return the exit status."""
    match sys.argv[1:] if arguments is None else arguments:
        case ["--socket", path, "--uid", uid] if uid.isdigit():
            pass
        case _:
            sys.stderr.write("usage: netdiag-recorder --socket PATH --uid N   (netdiag starts it)\n")
            return UsageError.exit_code
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # the front decides when it ends; Ctrl-C reaches both
    os.chdir("/")
    os.umask(0o077)
    leave_no_core()  # plaintext passes through here
    hold_little()
    with Link.connect(path, uid=int(uid)) as link:
        return _serve(link)


def _serve(link: Link) -> int:
    try:
        message, fds = link.receive(timeout_s=30.0)
    except (EOFError, TimeoutError, ValueError):  # the front is gone, or it is none
        return 0
    try:
        names = message.get("with") or []
        if message.get("do") != "start" or len(fds) != 1 + len(names):
            raise UsageError("the recorder expected a start message with the recording's descriptor")
        more = dict(zip(names, fds[1:], strict=True))
        from netdiag.recorder.session import Session

        Session(link, fds[0], message, plain_fd=more.get("plain"), program_fd=more.get("program")).run()
    except NetdiagError as error:
        _report(link, error)
        return error.exit_code
    except OSError as error:
        _report(link, NetdiagError(f"the recording failed: {error}"))
        return 1
    return 0


def _report(link: Link, error: NetdiagError) -> None:
    said = {"say": "error", "exit_code": error.exit_code, "message": error.message[:8000], "hint": error.hint}
    with contextlib.suppress(OSError):  # the front may be gone
        link.send(said)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The front's hold on the recorder: start it, meet it, hand the recording over, ask it to stop."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from netdiag import privilege
from netdiag.errors import InputUnreadable, NetdiagError, NotPermitted, Unsupported, UsageError
from netdiag.privilege import Means
from netdiag.recorder.link import Link, Message, Peer
from netdiag.tracing.elevation import Elevation
from netdiag.tracing.rendezvous import Rendezvous
from netdiag.tracing.signals import Signals

__all__ = ["Interrupted", "Recorder"]

MEET_S = 10.0
"""How long an elevated recorder may take to connect."""
ARM_S = 60.0
"""How long it may take to load and attach: checking programs is slow on a busy or small machine."""

REAP_S = 0.1
"""How long its end is waited for: the results are more urgent, and without its link it ends by itself."""
EXPLAIN_S = 1.0
"""How long a recorder that hung up may take to say why."""

_SHARE_OF_OTHERS = 0.75
"""Of the time to stop, for those who append to the recording beside the recorder."""

_MOST_SAID = 64 * 1024

_BY_EXIT_CODE: Mapping[int, type[NetdiagError]] = {
    error.exit_code: error for error in (UsageError, NotPermitted, Unsupported, InputUnreadable)
}


class Interrupted(Exception):  # noqa: N818 - not an error: the user thought otherwise
    """A signal came before anything was recorded."""


class Recorder:
    """A started recorder and the link to it."""

    def __init__(self, elevation: Elevation, signals: Signals) -> None:
        """Start the recorder and wait until it has connected.

        Raises NotPermitted where sudo refused, Unsupported where the recorder ended at once, Interrupted on a signal.
        """
        self._signals = signals
        self._said = os.fdopen(os.memfd_create("netdiag-recorder-errors"), "w+b")
        shown = elevation.means is Means.SUDO and privilege.has_terminal()
        with Rendezvous() as meeting:
            program = [*elevation.program, "--socket", meeting.path, "--uid", str(os.geteuid())]
            self._process = privilege.acquire(program, elevation.means, errors=None if shown else self._said)
            self._link = self._meet(meeting, elevation.means)

    def fileno(self) -> int:
        """Return the link's descriptor: readable when the recorder says something, or is gone."""
        return self._link.fileno()

    def arm(
        self,
        start: Mapping[str, Any],
        recording: int,
        more: Mapping[str, int] | None = None,
        *,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        """Hand over the descriptor of the recording and wait until the probes are armed; return what it said.

        `more` are further descriptors by name, as `netdiag.recorder.link` has them. `meanwhile` is called once while
        the recorder loads its programs.

        Raises the error that the recorder reports, Unsupported where it dies, Interrupted on a signal.
        """
        try:
            named = dict(more or {})
            self._link.send({**start, "with": list(named)}, fds=[recording, *named.values()])
            deadline = time.monotonic() + ARM_S
            if meanwhile is not None:
                meanwhile()
            message = self._wait_for("armed", deadline)
        except ValueError as error:
            raise UsageError(f"the target is too long: {error}", hint="name a cgroup, or fewer processes") from error
        except (EOFError, BrokenPipeError) as error:
            raise Unsupported(f"the recorder ended before it was armed{self._reason()}") from error
        except TimeoutError as error:
            raise Unsupported(f"the recorder was not armed within {ARM_S:.0f} s") from error
        return message

    def heard(self) -> Message | None:
        """Return what the recorder says, None where nothing is to be read. Raises EOFError when it is gone."""
        try:
            found = self._link.poll()
        except ValueError as error:
            raise EOFError(f"the recorder talks nonsense: {error}") from error
        if found is None:
            return None
        for fd in found[1]:
            os.close(fd)
        return found[0]

    def stop(
        self, reason: str, exit_status: int | None, *, timeout_s: float, others: Callable[[float], object] | None = None
    ) -> bool:
        """Ask it to write the end; return whether it has within `timeout_s` and before a signal came.

        `others` waits, up to the seconds it is given, for those who append to the recording too: the end comes last.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._link.send({"do": "stop", "reason": reason, "exit_status": exit_status})
            if others is not None:
                others(timeout_s * _SHARE_OF_OTHERS)
                with contextlib.suppress(BrokenPipeError):  # it did not wait any longer, and has said its last word
                    self._link.send({"do": "finish"})
            self._wait_for("ended", deadline)
        except (EOFError, ConnectionError, TimeoutError, Interrupted):
            return False
        return True

    def close(self, *, reap_s: float = REAP_S) -> None:
        """Hang up, which ends the recorder, and reap what was started from here, for which it waits up to `reap_s`."""
        self._link.close()
        self._let_go(reap_s=reap_s)

    def _wait_for(self, word: str, deadline: float) -> Message:
        """Return the message that says `word`; others are passed over, an error is raised."""
        while (left := deadline - time.monotonic()) > 0:
            _, caught = self._signals.wait([self._link], left)
            while (message := self.heard()) is not None:
                if message.get("say") == "error":
                    raise _error(message)
                if message.get("say") == word:
                    return message
            if caught:
                raise Interrupted
        raise TimeoutError

    def _meet(self, meeting: Rendezvous, means: Means) -> Link:
        """Return the link to the recorder, once it, or sudo's user, has taken the time it needs."""
        ended = os.pidfd_open(self._process.pid)
        try:
            ready = self._first_of([meeting, ended], None if means is Means.SUDO else MEET_S)
            if meeting not in ready:
                self._check_start(means)
                self._first_of([meeting], MEET_S)
            return meeting.accept(lambda peer: self._is_recorder(peer, means), timeout_s=MEET_S)
        except TimeoutError as error:
            reason = self._reason()
            self._let_go(kill=True)
            raise Unsupported(f"{error}{reason}") from error
        except BaseException:
            self._let_go(kill=True)
            raise
        finally:
            os.close(ended)

    def _first_of(self, waited: list[Any], timeout_s: float | None) -> list[Any]:
        """Return what became readable first."""
        ready, caught = self._signals.wait(waited, timeout_s)
        if caught:
            raise Interrupted
        if not ready:
            raise TimeoutError(f"the recorder did not connect within {MEET_S:.0f} s")
        return ready

    def _check_start(self, means: Means) -> None:
        """Raise where the process that was started has ended, except sudo after a good answer."""
        status = self._process.wait()
        if means is not Means.SUDO:
            raise Unsupported(f"the recorder ended at once (status {status}){self._reason()}")
        if status != 0:
            raise NotPermitted(
                f"sudo did not start the recorder{self._reason()}",
                hint=f"{privilege.discover().explain()}; run it where sudo can ask for a password, or as root",
            )

    def _is_recorder(self, peer: Peer, means: Means) -> bool:
        """Say whether the peer can only be the recorder: root, or the very process that was started."""
        if means is Means.SUDO:
            return peer.uid == 0
        return peer.pid == self._process.pid and peer.uid == os.geteuid()

    def _reason(self) -> str:
        """Return what sudo, or the last line that the recorder wrote to stderr, to end a sentence with."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs up before it says why
            self._process.wait(timeout=EXPLAIN_S)
        said = os.pread(self._said.fileno(), _MOST_SAID, 0)  # the file's position is shared with the writer
        lines = said.decode(errors="replace").split("\n")
        lines = [line.strip() for line in lines if line.strip()]
        of_sudo = [line.removeprefix("sudo: ") for line in lines if line.startswith("sudo: ")]
        # sudo explains first and advises after that
        told = f"sudo: {' '.join(of_sudo)}" if of_sudo else next(reversed(lines), "")
        return f": {told[:300]}" if told else ""

    def _let_go(self, *, kill: bool = False, reap_s: float = REAP_S) -> None:
        """Reap the process that was started; one that never became the recorder is killed."""
        with contextlib.suppress(PermissionError):  # root's, and this is not root any more: it ends with its link
            if kill:
                self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=reap_s)
        self._said.close()


def _error(message: Message) -> NetdiagError:
    """Return the error that the recorder reported."""
    kind = _BY_EXIT_CODE.get(message.get("exit_code", 0), Unsupported)
    hint = message.get("hint")
    return kind(str(message.get("message", "the recorder failed")), hint=None if hint is None else str(hint))

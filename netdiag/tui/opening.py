# SPDX-License-Identifier: Apache-2.0
"""What the head of the screen says of a recording: what was traced, and whether it ended as it should. Pure."""

from __future__ import annotations

from typing import Any

from netdiag.recording.reader import Recording
from netdiag.render import words
from netdiag.tui.model import Snapshot, State

__all__ = ["about", "state_of"]

_EARLY = {"front-gone": "netdiag was ended while what it traced ran on", "recorder-died": "the recorder ended early"}


def state_of(part: Recording, *, over: bool) -> tuple[State, str | None]:
    """Return how the recording stands after its newest part, and why it is not as it should be."""
    if part.truncated_at is not None:
        return State.TRUNCATED, f"it breaks off at byte {part.truncated_at:,}: {part.truncated_why}"
    if part.end is not None:
        reason = str(part.end["exit_reason"])
        if reason in _EARLY:
            return State.TRUNCATED, _EARLY[reason]
        return State.FINISHED, None
    if over:
        return State.TRUNCATED, "it has no end: who wrote it died, or still writes"
    return State.LIVE, None


def about(part: Recording, last: Snapshot) -> dict[str, Any]:
    """Return the members of a snapshot that say what was traced."""
    if last.what:
        return {"what": last.what, "started": last.started}
    header = part.header
    document = {
        "command": header.get("command"),
        "target": header.get("target") or {},
        "coverage": {"tier": header.get("tier")},
    }
    if not isinstance((document["command"] or {}).get("argv", []), list):
        document["command"] = None
    if document["command"] is not None:
        document["command"] = {**document["command"], "argv": document["command"].get("argv") or []}
    return {"what": words.command(document), "started": str(header.get("started", ""))}

# SPDX-License-Identifier: Apache-2.0
"""In which direction a program goes through a file, from faults, reads and readahead."""

from __future__ import annotations

from dataclasses import dataclass

from netdiag.weights.model import File

__all__ = ["Walk", "walk"]

_MOST = 0.85
"""So many of the steps in one direction are that direction."""
_BACKWARD = 0.60
_LEAST = 8
_JUMPS = 0.5
"""With this share of steps over 4 MiB the walk goes from place to place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The direction and what shows it."""

    direction: str | None
    """forward, backward, random, jumping (forward in wide steps); None = not seen."""
    forward: int
    backward: int
    source: str | None
    """faults (the page cache was asked), around (served from memory), reads, readahead, memory (parts as they came)."""


def walk(file: File) -> Walk:
    """Return the direction; of several signs the one with most steps."""
    signs = (
        ("faults", file.forward, file.backward, file.near),
        ("around", file.around_forward, file.around_backward, file.around_near),
        ("reads", file.gets - file.gets_backward, file.gets_backward, None),
        (
            "readahead",
            file.readahead_waited + file.readahead_ahead - file.readahead_backward,
            file.readahead_backward,
            None,
        ),
        ("memory", *file.came),
    )
    source, forward, backward, near = max(signs, key=lambda sign: sign[1] + sign[2])
    steps = forward + backward
    if steps < _LEAST:
        return Walk(direction=None, forward=forward, backward=backward, source=source if steps else None)
    far = near is not None and near < _JUMPS * steps
    if backward >= _BACKWARD * steps and not far:
        direction = "backward"
    elif forward >= _MOST * steps:
        direction = "jumping" if far else "forward"
    else:
        direction = "random"
    return Walk(direction=direction, forward=forward, backward=backward, source=source)

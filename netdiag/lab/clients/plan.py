# SPDX-License-Identifier: Apache-2.0
"""What a client is to do, whatever its library."""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Plan", "repeat", "take", "together", "unverified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The numbers of one run. Times in seconds."""

    urls: list[str]
    """Called in turn."""
    calls: int = 6
    gap_s: float = 0.05
    """Pause between two calls or bursts."""
    burst: int = 1
    """Calls at a time, or threads."""
    keep: int = 1
    """Connections that the pool keeps."""
    expiry_s: float = 5.0
    """Idle limit of the client's pool."""
    timeout_s: float = 20.0
    stream: bool = False
    body_bytes: int = 20
    """Size of the prompt."""
    read_bytes: int = 1
    """Bytes of the answer that a careless habit reads before it goes on."""
    pause_s: float = 0.0
    """Pause inside a habit: between reads, or while the process is stopped."""
    pause_at: int = 0
    """The piece of a stream, counted from 0, before which a habit pauses."""
    tries: int = 3
    """Attempts of one call."""
    bad_calls: int = 0
    """So many of the calls show the habit, the others are well-behaved."""
    proxy: str = ""
    """URL of a proxy for the habits that take one."""
    jitter: float = 0.0
    """Each gap is longer or shorter by up to this share."""

    @property
    def payload(self) -> dict[str, Any]:
        """A chat request."""
        messages = [{"role": "user", "content": "x" * self.body_bytes}]
        return {"model": "lab", "messages": messages, "stream": self.stream}

    @property
    def body(self) -> bytes:
        """The chat request as bytes."""
        return json.dumps(self.payload).encode()

    def url(self, turn: int) -> str:
        """The URL of the n-th call."""
        return self.urls[turn % len(self.urls)]


def repeat(plan: Plan, call: Callable[[int], object], failures: tuple[type[BaseException], ...]) -> int:
    """Make all calls with the gap between them; failures are counted and passed over, as real retry loops do."""
    failed = 0
    for turn in range(plan.calls):
        if turn:
            time.sleep(plan.gap_s * random.uniform(1 - plan.jitter, 1 + plan.jitter))
        try:
            call(turn)
        except failures:
            failed += 1
    return failed


def take(pieces: Iterator[Any], count: int) -> None:
    """Take pieces of a body until `count` bytes have come."""
    taken = 0
    while taken < count:
        taken += len(next(pieces))


def together(count: int, call: Callable[[int], object]) -> None:
    """Run `call(0)` … `call(count - 1)` at once, each in a thread, and wait for all."""
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def unverified() -> ssl.SSLContext:
    """Return a TLS context that accepts the lab's throw-away certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

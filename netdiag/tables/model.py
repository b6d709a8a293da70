# SPDX-License-Identifier: Apache-2.0
"""What the analyses get: one DataFrame per kind of thing, and how much of the truth may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from netdiag.tables.schema import empty

__all__ = ["Loss", "Tables"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How many events of a probe's stream were recorded and lost, counted in the kernel."""

    probe: str
    seen: int
    lost: int | None
    """None when the recording does not say, because it was cut off."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """Everything that was recorded, joined. Columns are those of `docs/architecture.md`."""

    connections: pd.DataFrame = field(default_factory=partial(empty, "connections"))
    """One row per end of a connection that was traced, in order of time."""
    bursts: pd.DataFrame = field(default_factory=partial(empty, "bursts"))
    """Calls in one direction with short pauses, by connection and time."""
    turns: pd.DataFrame = field(default_factory=partial(empty, "turns"))
    """Data one way, then the other way, from the client's side first: a request, or a part of a handshake."""
    retransmits: pd.DataFrame = field(default_factory=partial(empty, "retransmits"))
    requests: pd.DataFrame = field(default_factory=partial(empty, "requests"))
    chunks: pd.DataFrame = field(default_factory=partial(empty, "chunks"))
    """Pieces of streamed answers, by request and time."""
    scheduling: pd.DataFrame = field(default_factory=partial(empty, "scheduling"))
    """How long processes ran and waited for a processor, cumulative, by process and time."""
    handshakes: pd.DataFrame = field(default_factory=partial(empty, "handshakes"))
    records: pd.DataFrame = field(default_factory=partial(empty, "records"))
    """TLS record headers; a length is that of the payload, without the 5 bytes of the header."""
    tls_calls: pd.DataFrame = field(default_factory=partial(empty, "tls_calls"))
    """Handshakes as the TLS libraries made them, over all their calls."""
    contexts: pd.DataFrame = field(default_factory=partial(empty, "contexts"))
    """New TLS contexts and loads of trusted certificates, as the libraries made them."""
    resolutions: pd.DataFrame = field(default_factory=partial(empty, "resolutions"))
    """Look-ups of names; `part_of` is the row of the C library's call that asked a question on the wire."""
    processes: pd.DataFrame = field(default_factory=partial(empty, "processes"))
    stops: pd.DataFrame = field(default_factory=partial(empty, "stops"))
    """When processes stood still, because somebody stopped them."""
    listeners: pd.DataFrame = field(default_factory=partial(empty, "listeners"))
    """First and last look at each listening socket."""
    span_ms: float = 0.0
    """Length of the trace."""
    losses: tuple[Loss, ...] = ()
    unobservable: tuple[Mapping[str, Any], ...] = ()
    """What was seen in plaintext and could not be used: `pid`, `what`, `why`, as coverage says it."""
    truncated: bool = False
    """The recording ends before its end: what happened later is not known."""

    @property
    def lossy(self) -> bool:
        """Whether events were lost, so that counts are lower bounds."""
        return any(loss.lost for loss in self.losses)

# SPDX-License-Identifier: Apache-2.0
"""Turns: data that the client's side sends, then data that comes back, with the instants between. Pure.

On a plain connection a turn is a request with its response, on an encrypted one also a part of the handshake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.columns import Floats, Ints
from netdiag.tables.schema import frame

__all__ = ["changes", "numbers_within", "sums", "turns"]


def turns(connections: pd.DataFrame, bursts: pd.DataFrame) -> pd.DataFrame:
    """Return the turns by connection and time.

    At a client's socket a turn is sends, then receives; at a server's it is the other way about. So `sent_bytes` is
    what the client's side said and `received_bytes` what was answered. `first_byte_ns` is an arrival at a client's
    socket and a write at a server's. What the other side says before any question (a greeting) belongs to no turn.
    """
    data = bursts[~bursts["close_notify"].to_numpy()]
    row = data["connection"].to_numpy()
    server = (connections["role"] == "server").to_numpy()[row]
    asks = (data["direction"] == "send").to_numpy() != server
    starts = np.flatnonzero(changes(row) | changes(asks))
    phases = _phases(data, starts)
    phase_row, phase_asks = row[starts], asks[starts]
    ask = np.flatnonzero(phase_asks)
    answered = np.zeros(len(starts), bool)
    answered[:-1] = ~phase_asks[1:] & (phase_row[1:] == phase_row[:-1])
    answered = answered[ask]
    answer = np.where(answered, ask + 1, ask)
    back = {name: np.where(answered, values[answer], np.nan) for name, values in phases.items()}
    sent = {name: values[ask] for name, values in phases.items()}
    read_here = np.where(server[starts[ask]], ask, answer)
    return frame(
        "turns",
        len(ask),
        {
            "connection": phase_row[ask],
            "number": numbers_within(phase_row[ask]),
            "answered": answered,
            "began_ns": sent["arrived"],
            "sent_ns": sent["ended"],
            "sent_bytes": sent["bytes"],
            "sent_calls": sent["calls"],
            "first_call_bytes": sent["first_bytes"],
            "first_byte_ns": back["arrived"],
            "last_byte_ns": back["ended"],
            "received_bytes": np.where(answered, back["bytes"], 0.0),
            "received_calls": np.where(answered, back["calls"], 0.0),
            "received_bursts": np.where(answered, back["bursts"], 0.0),
            "lag_ms": phases["lag"][read_here],
            "last_lag_ms": phases["last_lag"][read_here],
            "pid": sent["pid"],
            "tid": sent["tid"],
        },
    )


def changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell for each element whether it differs from the one before; the first does."""
    changed = np.ones(len(values), bool)
    changed[1:] = values[1:] != values[:-1]
    return changed


def numbers_within(groups: Ints) -> Ints:
    """Return 1, 2, … within each run of equal elements."""
    starts = np.flatnonzero(changes(groups))
    lengths = np.diff(np.append(starts, len(groups)))
    return np.arange(len(groups)) - np.repeat(starts, lengths) + 1


def _phases(data: pd.DataFrame, starts: Ints) -> dict[str, Floats]:
    """Return runs of bursts in one direction: `arrived` is the first arrival, or the first call where none was seen."""
    ends = np.append(starts[1:], len(data)) - 1 if len(starts) else starts
    column = {name: data[name].to_numpy() for name in data.columns if name not in {"direction", "close_notify"}}
    began, arrived = column["began_ns"][starts], column["arrived_ns"][starts]
    lag = column["max_lag_ms"]
    return {
        "arrived": np.where(arrived <= began, arrived, began),
        "ended": column["ended_ns"][ends],
        "bytes": sums(column["bytes"], starts),
        "calls": sums(column["calls"], starts),
        "bursts": (ends - starts + 1).astype(np.float64),
        "first_bytes": column["first_bytes"][starts],
        "lag": np.where(sums(~np.isnan(lag), starts) > 0, sums(np.nan_to_num(lag), starts), np.nan),
        "last_lag": lag[ends],
        "pid": column["pid"][starts],
        "tid": column["tid"][starts],
    }


def sums(values: NDArray[Any], starts: Ints) -> Floats:
    """Return the sum of each run of elements, given where the runs start."""
    return np.add.reduceat(values.astype(np.float64), starts) if len(starts) else np.zeros(0)

# SPDX-License-Identifier: Apache-2.0
"""The columns of every table: names, order and types. What a column means stands in `docs/architecture.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from netdiag.errors import InputUnreadable

__all__ = ["COLUMNS", "empty", "frame", "objects"]

_FLOAT, _INT, _BOOL, _OBJECT = "float64", "int64", "bool", "object"


def _typed(**kinds: str) -> dict[str, str]:
    return {name: kind for kind, names in kinds.items() for name in names.split()}


def _ordered(order: str, types: Mapping[str, str], default: str = _FLOAT) -> dict[str, str]:
    return {name: types.get(name, default) for name in order.split()}


COLUMNS: Mapping[str, Mapping[str, str]] = {
    "connections": _ordered(
        """id cookie pid tid comm role netns cgroup family protocol local_ip local_port remote_ip remote_port
        remote_name opened_ns established_ns closing_ns ended_ns preexisting outcome error connect_ms syn_retransmits
        bytes_sent bytes_received rtt_ms min_rtt_ms retransmits keepalive_probes closed_by close
        idle_before_close_ms first_sent_ns last_sent_ns first_received_ns last_received_ns last_read_ns unread
        unread_close zero_window_ms peer_window_ms sends receives shared io_pid io_tid io_tids never_sent mss
        encrypted requests turns handshake proxied unseen""",
        _typed(
            int64="cookie",
            bool="preexisting unread_close shared never_sent proxied unseen",
            object="""id comm role netns cgroup family protocol local_ip remote_ip remote_name outcome error
            keepalive_probes closed_by close encrypted handshake""",
        ),
    ),
    "bursts": _ordered(
        """connection direction began_ns ended_ns arrived_ns bytes calls first_bytes max_lag_ms pid tid close_notify
        out_of_order sent_tick missing""",
        _typed(int64="connection", bool="close_notify", object="direction"),
    ),
    "retransmits": _ordered("connection at_ns bytes by", _typed(int64="connection", object="by")),
    "turns": _ordered(
        """connection number began_ns sent_ns first_byte_ns last_byte_ns sent_bytes sent_calls received_bytes
        received_calls received_bursts first_call_bytes lag_ms last_lag_ms pid tid answered""",
        _typed(int64="connection number", bool="answered"),
    ),
    "requests": _ordered(
        """id connection stream_id pid tid protocol sequence reused idle_before_ms method host path status headers
        request_bytes response_bytes error started_ns dns_ms connect_ms client_setup_ms tls_ms queue_ms send_ms wait_ms
        receive_ms reader_lag_ms unattributed_ms total_ms server_reported_ms attempt retry_of stream model source
        began_ns sent_ns first_byte_ns ended_ns complete last_lag_ms request_headers input_tokens cached_tokens
        output_tokens reasoning_tokens response_format stream_asked blocked_ms concurrent""",
        _typed(
            int64="connection sequence",
            object="""id protocol reused method host path headers error retry_of stream model source complete
            request_headers response_format stream_asked""",
        ),
    ),
    "chunks": _ordered(
        "request number at_ns read_ns bytes kind tokens events token_ns", _typed(int64="request number", object="kind")
    ),
    "scheduling": _ordered("pid at_ns run_ms wait_ms throttled_ms periods waits", _typed(int64="pid", object="waits")),
    "handshakes": _ordered(
        """id connection pid library started_ns duration_ms outcome alert version cipher group sni alpn_offered alpn
        offered resumed early_data hello_retry client_hello_bytes server_flight_bytes certificate_count tickets_issued
        network_ms server_ms client_ms source resumable client_cpu_ms chain client_print server_print""",
        _typed(
            int64="connection",
            object="""id library outcome alert version cipher group sni alpn_offered alpn offered resumed early_data
            hello_retry source resumable chain client_print server_print""",
        ),
    ),
    "records": _ordered(
        "connection at_ns direction type length first second version resynced",
        _typed(int64="connection type length first second version", bool="resynced", object="direction"),
    ),
    "tls_calls": _ordered(
        "connection pid tid started_ns ended_ns inside_ms cpu_ms calls ok library binding",
        _typed(bool="ok", object="library binding"),
    ),
    "contexts": _ordered(
        "connection pid tid at_ns duration_ms cpu_ms kind ok library", _typed(bool="ok", object="kind library")
    ),
    "resolutions": _ordered(
        """id pid tid name qtype source started_ns duration_ms answers error server transport ttl_s truncated attempts
        part_of""",
        _typed(object="id name qtype source answers error server transport truncated"),
    ),
    "processes": _ordered(
        "pid ppid exe comm argv container pod cgroup started_ns ended_ns exit_code libraries",
        _typed(int64="pid", object="exe comm argv container pod cgroup libraries"),
    ),
    "stops": _ordered("pid began_ns ended_ns lasted_ms how", _typed(object="how")),
    "listeners": _ordered(
        "pid comm netns local_ip local_port at_ns drops accept_queue accept_queue_max",
        _typed(object="comm netns local_ip"),
    ),
}
"""Table to column to NumPy type. Unknown is NaN in float64 columns and None in object columns."""


def frame(table: str, length: int, columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table of `length` rows with all its columns; those that are not given are unknown in every row.

    ValueError for a column that the table does not have, or an unknown value where the type has none.
    """
    schema = COLUMNS[table]
    strange = set(columns) - set(schema)
    if strange:
        raise ValueError(f"{table} has no column {', '.join(sorted(strange))}")
    return pd.DataFrame({name: _column(kind, length, columns.get(name)) for name, kind in schema.items()}, copy=False)


def empty(table: str) -> pd.DataFrame:
    """Return the table without rows."""
    return frame(table, 0, {})


def _column(kind: str, length: int, values: Any) -> Any:
    if kind == _OBJECT:
        return pd.Series(objects([None] * length if values is None else values), dtype=object)
    if values is not None:
        try:
            return np.asarray(values, kind)
        except OverflowError as error:
            raise InputUnreadable("a number in the recording is larger than any that netdiag writes") from error
    return np.full(length, np.nan if kind == _FLOAT else 0, kind)


def objects(values: Any) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Return a one-dimensional array of Python objects, also where the values are lists.

    Of texts that pandas keeps as a kind of its own those that are not known become None.
    """
    if isinstance(values, np.ndarray) and values.dtype == object:
        return values
    if isinstance(values, pd.Series | pd.api.extensions.ExtensionArray):
        known = values.to_numpy(object, copy=True)
        known[np.asarray(pd.isna(values), bool)] = None
        return known
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array

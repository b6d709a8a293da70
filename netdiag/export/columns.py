# SPDX-License-Identifier: Apache-2.0
"""The columns of exported lists: name, kind, and where they come from. `docs/schemas.md` holds the same tables.

Within a major version columns are only added, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SCHEMAS", "Column"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column."""

    name: str
    kind: str
    """`text`, `int`, `ms` (float milliseconds), `bool`, `instant` (UTC, nanoseconds), `texts`, `json` (text)."""
    source: str
    """Column of the table, or `column.member` of an object in it."""


def _columns(words: str) -> tuple[Column, ...]:
    """Read `name:kind` or `name:kind:source`; without a source it is the name, of instants with `_ns`."""
    found = []
    for word in words.split():
        name, kind, *source = word.split(":")
        plain = f"{name}_ns" if kind == "instant" else name
        found.append(Column(name=name, kind=kind, source=source[0] if source else plain))
    return tuple(found)


SCHEMAS: Mapping[str, tuple[Column, ...]] = {
    "requests": _columns(
        """id:text connection:text stream_id:int pid:int protocol:text sequence:int reused:bool idle_before_ms:ms
        method:text http_host:text:host path:text status:int headers:json request_headers:json request_bytes:int
        response_bytes:int error:text started:instant dns_ms:ms connect_ms:ms client_setup_ms:ms tls_ms:ms queue_ms:ms
        send_ms:ms wait_ms:ms receive_ms:ms reader_lag_ms:ms unattributed_ms:ms total_ms:ms server_reported_ms:ms
        attempt:int retry_of:text stream_kind:text:stream.kind stream_chunks:int:stream.chunks
        stream_first_chunk_ms:ms:stream.first_chunk_ms stream_first_token_ms:ms:stream.first_token_ms
        stream_first_reasoning_ms:ms:stream.first_reasoning_ms stream_ttft_ms:ms:stream.ttft_ms
        stream_gap_p50_ms:ms:stream.gap_p50_ms stream_gap_p95_ms:ms:stream.gap_p95_ms
        stream_gap_max_ms:ms:stream.gap_max_ms stream_tokens:int:stream.tokens stream_finished:bool:stream.finished
        stream_stalls:json:stalls model:text stream_asked:bool response_format:text input_tokens:int cached_tokens:int
        output_tokens:int reasoning_tokens:int blocked_ms:ms source:text complete:bool"""
    ),
    "connections": _columns(
        """id:text cookie:int pid:int tid:int comm:text role:text netns:json family:text protocol:text local_ip:text
        local_port:int remote_ip:text remote_port:int remote_name:text opened:instant closed:instant:ended_ns
        preexisting:bool outcome:text error:text connect_ms:ms syn_retransmits:int bytes_sent:int bytes_received:int
        rtt_ms:ms min_rtt_ms:ms retransmits:int keepalive_probes:bool closing:instant closed_by:text close:text
        idle_before_close_ms:ms requests:int handshake:text encrypted:bool zero_window_ms:ms unread_bytes:int:unread"""
    ),
    "handshakes": _columns(
        """id:text connection:text pid:int library:text started:instant duration_ms:ms outcome:text alert:text
        version:text cipher:text group:text sni:text alpn_offered:texts alpn:text offered:text resumed:bool
        early_data:text hello_retry:bool client_hello_bytes:int server_flight_bytes:int certificate_count:int
        tickets_issued:int network_ms:ms server_ms:ms client_ms:ms source:text"""
    ),
    "resolutions": _columns(
        """id:text pid:int tid:int name:text qtype:text source:text started:instant duration_ms:ms answers:texts
        error:text server:text transport:text ttl_s:ms truncated:bool attempts:int"""
    ),
    "processes": _columns(
        """pid:int ppid:int exe:text comm:text argv:texts container:text pod:text cgroup:text started:instant
        ended:instant exit_code:int libraries:json"""
    ),
    "findings": _columns(
        """code:text cause:text severity:text confidence:ms title:text subject:json count:int of:int cost_ms:ms
        share_of_total:ms what_if:text evidence:json learned:json advice:json explain:text"""
    ),
}

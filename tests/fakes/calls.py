# SPDX-License-Identifier: Apache-2.0
"""Examined recordings with what exporters and reports have to get right: streams, errors, hostile names."""

from __future__ import annotations

from typing import Any

from netdiag.export.source import Source
from netdiag.values import clean
from tests.fakes import documents

MS = documents.MS
HOSTILE = "</script><img src=x onerror=alert(1)>'\"&\x1b[31m=1+1"


def stream(**changes: Any) -> dict[str, Any]:
    """Return what is known of a streamed answer."""
    return {
        "kind": "sse",
        "chunks": 40,
        "first_chunk_ms": 210.5,
        "first_token_ms": 250.25,
        "first_reasoning_ms": None,
        "ttft_ms": 300.75,
        "gap_p50_ms": 20.0,
        "gap_p95_ms": 31.0,
        "gap_max_ms": 400.0,
        "tokens": 40,
        "finished": True,
    } | changes


def source(*, calls: int = 5, hostile: str | None = None, **changes: Any) -> Source:
    """Return plain calls, one streamed call of a model, and one that failed, on two hosts."""
    plain = documents.per_call_tables(calls)
    name = hostile or "api.example.com"
    ends = [documents.connection(number + 1, 100.0 * number) for number in range(calls)]
    ends.append(
        documents.connection(
            calls + 1, 900.0, remote_name=name, remote_ip="2001:db8::7", remote_port=443, encrypted=True, comm=name
        )
    )
    requests = [documents.request(number + 1, number, 100.0 * number) for number in range(calls)]
    spoken = {"protocol": "h2", "method": "POST", "host": name, "source": "plaintext", "model": "gpt-x"}
    requests.append(
        documents.request(
            calls + 1,
            calls,
            910.123457,
            **spoken,
            path="/v1/chat/completions",
            status=200,
            stream=stream(),
            headers={"content-type": "text/event-stream", "x-request-id": "r-1"},
            input_tokens=12,
            output_tokens=40,
            stream_asked=True,
            attempt=1,
            wait_ms=210.123456,
            total_ms=216.123456,
        )
    )
    failed = {"path": hostile or "/v1/models", "status": 503, "attempt": 2, "retry_of": f"r{calls + 1}"}
    requests.append(documents.request(calls + 2, calls, 1200.0, **spoken, **failed))
    tables = documents.tables(ends, requests, turns=plain.turns)
    found = documents.finding(title=hostile or "A new connection for every call costs 20 of 230 ms (9 %)")
    values: dict[str, Any] = {
        "recording": documents.recording(),
        "tables": tables,
        "findings": [clean(found.to_json())],
        "stalls": {calls: [{"at_ms": 100.0, "gap_ms": 400.0, "blame": "server", "why": "nothing arrived"}]},
    }
    return Source(**(values | changes))

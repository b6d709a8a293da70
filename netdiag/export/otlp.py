# SPDX-License-Identifier: Apache-2.0
"""Requests as OpenTelemetry spans and metrics, by the semantic conventions for HTTP clients and for generative AI.

A request is a span with its phases as children; identifiers follow from the recording, so writing it twice gives the
same trace. Files are those of the OTLP file exporter (a JSON object a line). Something is sent only to an endpoint that
the user names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netdiag import __version__, web
from netdiag.errors import NetdiagError, Unsupported, UsageError
from netdiag.export.source import Progress, Source, silent
from netdiag.summary import host_of

__all__ = ["lines", "metrics", "send", "traces"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_GENAI_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""The bucket bounds that the conventions advise."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
_PHASES = ("dns_ms", "connect_ms", "tls_ms", "client_setup_ms", "queue_ms", "send_ms", "wait_ms", "receive_ms")
_CLIENT, _INTERNAL, _ERROR = 3, 1, 2
_CUMULATIVE = 2
_TIMEOUT_S = 10.0
_MOST_ANSWER = 1 << 16
_OPERATIONS = {
    "/chat/completions": "chat",
    "/messages": "chat",
    "/responses": "chat",
    "/completions": "text_completion",
    "/embeddings": "embeddings",
}


def _protocol() -> Any:
    try:
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    except ImportError as error:
        raise Unsupported("OTLP needs opentelemetry-proto", hint="pip install 'netdiag-ebpf[otlp]'") from error
    return trace_service_pb2.ExportTraceServiceRequest, metrics_service_pb2.ExportMetricsServiceRequest


# --- spans ------------------------------------------------------------------------------------------------------------


def traces(source: Source, progress: Progress = silent) -> Iterator[Any]:
    """Yield `ExportTraceServiceRequest` messages, some thousand requests in each."""
    kind, _ = _protocol()
    ends = {row["id"]: row for piece in source.pieces("connections") for row in piece}
    seed = f"{source.recording.header['clock']}{source.recording.header.get('host')}"
    for piece in source.pieces("requests", progress):
        for first in range(0, len(piece), 2000):
            message = kind()
            scope = _scope(message.resource_spans.add(), source).scope_spans.add()
            scope.scope.name, scope.scope.version = "netdiag", __version__
            for row in piece[first : first + 2000]:
                _span(scope, row, ends.get(row["connection"]), seed)
            if scope.spans:
                yield message


def _scope(holder: Any, source: Source) -> Any:
    host = source.recording.header.get("host") or {}
    _attributes(
        holder.resource.attributes,
        {
            "service.name": _service(source),
            "os.type": "linux" if host.get("kernel") else None,
            "host.arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(str(host.get("arch")), host.get("arch")),
            "telemetry.sdk.name": "netdiag",
            "telemetry.sdk.version": __version__,
        },
    )
    return holder


def _service(source: Source) -> str:
    argv = (source.recording.header.get("command") or {}).get("argv")
    return str(argv[0]).rsplit("/", 1)[-1] if argv else "unknown_service"


def _span(scope: Any, row: Mapping[str, Any], end: Mapping[str, Any] | None, seed: str) -> None:
    began, total = _ns(row["started"]), row["total_ms"]
    if began is None:
        return
    trace_id = _digest(seed, row["retry_of"] or row["id"])[:16]
    span = scope.spans.add()
    span.trace_id, span.span_id = trace_id, _digest(seed, row["id"], "span")[:8]
    span.kind = _CLIENT
    method = row["method"] if row["method"] in _METHODS else "_OTHER" if row["method"] else None
    span.name = "HTTP" if method in {None, "_OTHER"} else str(method)
    span.start_time_unix_nano = began
    _attributes(span.attributes, {**_http(row, end, method), **_genai(row), **_own(row)})
    failed = _error(row)
    if failed is not None:
        span.status.code = _ERROR
    at = began
    for phase in _PHASES:
        ms = row[phase]
        if not ms:
            continue
        child = scope.spans.add()
        child.trace_id, child.parent_span_id = trace_id, span.span_id
        child.span_id = _digest(seed, row["id"], phase)[:8]
        child.name, child.kind = phase.removesuffix("_ms"), _INTERNAL
        child.start_time_unix_nano = at
        at += round(ms * 1e6)
        child.end_time_unix_nano = at
    # the format has no unknown end: at least so long
    span.end_time_unix_nano = at if total is None else began + round(total * 1e6)


def _http(row: Mapping[str, Any], end: Mapping[str, Any] | None, method: str | None) -> dict[str, Any]:
    name, port = (None, None) if end is None else host_of(end)
    host = (row["host"] or name or "").rpartition(":")
    address = row["host"] if not host[0] or not host[2].isdigit() else host[0]
    return {
        "http.request.method": method,
        "http.request.method_original": row["method"] if method == "_OTHER" else None,
        "server.address": address or name,
        "server.port": port,
        "network.peer.address": None if end is None else end["remote"]["ip"],
        "network.peer.port": port,
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "network.protocol.version": {"http/1.0": "1.0", "http/1.1": "1.1", "h2": "2"}.get(row["protocol"]),
        "url.path": row["path"],
        "url.scheme": None if end is None else "http" if end["encrypted"] is False else "https",
        "http.response.status_code": row["status"],
        "http.request.size": row["request_bytes"],
        "http.response.size": row["response_bytes"],
        "http.request.resend_count": row["attempt"] - 1 if row["attempt"] and row["attempt"] > 1 else None,
        "error.type": _error(row),
        "process.pid": row["pid"],
    }


def _error(row: Mapping[str, Any]) -> str | None:
    if row["error"]:
        return str(row["error"])
    return str(row["status"]) if row["status"] and row["status"] >= 400 else None


def _genai(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["model"] is None:
        return {}
    return {
        "gen_ai.operation.name": _operation(row),
        "gen_ai.request.model": row["model"],
        "gen_ai.request.stream": row["stream_asked"],
        "gen_ai.usage.input_tokens": row["input_tokens"],
        "gen_ai.usage.output_tokens": row["output_tokens"],
        "gen_ai.usage.cache_read.input_tokens": row["cached_tokens"],
        "gen_ai.output.type": {"json_object": "json", "json_schema": "json", "text": "text"}.get(
            row["response_format"]
        ),
    }


def _operation(row: Mapping[str, Any]) -> str | None:
    path = row["path"] or ""
    return next((name for end, name in _OPERATIONS.items() if path.endswith(end)), None)


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    stream = row["stream"] or {}
    return {
        "netdiag.request.id": row["id"],
        "netdiag.connection.id": row["connection"],
        "netdiag.source": row["source"],
        "netdiag.reused": row["reused"],
        "netdiag.reader_lag_ms": row["reader_lag_ms"],
        "netdiag.unattributed_ms": row["unattributed_ms"],
        "netdiag.total_ms": row["total_ms"],
        "netdiag.first_token_ms": stream.get("first_token_ms"),
    }


# --- metrics ----------------------------------------------------------------------------------------------------------


class _Histogram:
    """Counts in buckets, one such for each set of attributes."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.least = self.most = float("nan")

    def add(self, value: float) -> None:
        """Count a value; a bucket holds what is at most its bound."""
        self.counts[next((at for at, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))] += 1
        self.total += value
        self.least = value if not self.least <= value else self.least
        self.most = value if not self.most >= value else self.most


_METRICS: tuple[tuple[str, str, str, Sequence[float]], ...] = (
    ("http.client.request.duration", "s", "Duration of HTTP client requests.", _SECONDS),
    ("gen_ai.client.operation.duration", "s", "Duration of calls to a model.", _GENAI_SECONDS),
    ("gen_ai.server.time_to_first_token", "s", "From the request's last byte to its first token.", _FIRST_TOKEN),
    ("gen_ai.client.token.usage", "{token}", "Tokens as the server counted them.", _TOKENS),
)


def metrics(source: Source) -> Any:
    """Return the `ExportMetricsServiceRequest` of the whole recording: cumulative histograms."""
    _, kind = _protocol()
    ends = {row["id"]: row for piece in source.pieces("connections") for row in piece}
    found: dict[str, dict[tuple[tuple[str, Any], ...], _Histogram]] = {name: {} for name, *_ in _METRICS}
    bounds = {name: bounds for name, _, _, bounds in _METRICS}
    for piece in source.pieces("requests"):
        for row in piece:
            for name, labels, value in _samples(row, ends.get(row["connection"])):
                key = tuple(sorted((label, told) for label, told in labels.items() if told is not None))
                found[name].setdefault(key, _Histogram(bounds[name])).add(value)
    message = kind()
    scope = _scope(message.resource_metrics.add(), source).scope_metrics.add()
    scope.scope.name, scope.scope.version = "netdiag", __version__
    end_ns = source.base_ns + round(source.tables.span_ms * 1e6)
    for name, unit, about, _ in _METRICS:
        if not found[name]:
            continue
        metric = scope.metrics.add(name=name, unit=unit, description=about)
        metric.histogram.aggregation_temporality = _CUMULATIVE
        for key, histogram in found[name].items():
            point = metric.histogram.data_points.add(start_time_unix_nano=source.base_ns, time_unix_nano=end_ns)
            _attributes(point.attributes, dict(key))
            point.count, point.sum = sum(histogram.counts), histogram.total
            point.min, point.max = histogram.least, histogram.most
            point.bucket_counts.extend(histogram.counts)
            point.explicit_bounds.extend(histogram.bounds)
    return message


def _samples(row: Mapping[str, Any], end: Mapping[str, Any] | None) -> Iterator[tuple[str, dict[str, Any], float]]:
    method = row["method"] if row["method"] in _METHODS else "_OTHER" if row["method"] else None
    told = _http(row, end, method)
    keys = ("http.request.method", "server.address", "server.port", "http.response.status_code", "error.type")
    labels = {key: told[key] for key in (*keys, "network.protocol.version", "url.scheme")}
    if row["total_ms"] is not None:
        yield "http.client.request.duration", labels, row["total_ms"] / 1e3
    if row["model"] is None:
        return
    model = {"gen_ai.request.model": row["model"], "gen_ai.operation.name": _operation(row)}
    model |= {key: told[key] for key in ("server.address", "server.port", "error.type")}
    if row["total_ms"] is not None:
        yield "gen_ai.client.operation.duration", model, row["total_ms"] / 1e3
    first = (row["stream"] or {}).get("first_token_ms")
    if first is not None:
        yield "gen_ai.server.time_to_first_token", model, first / 1e3
    for kind in ("input", "output"):
        if row[f"{kind}_tokens"] is not None:
            yield "gen_ai.client.token.usage", {**model, "gen_ai.token.type": kind}, float(row[f"{kind}_tokens"])


# --- where it goes ----------------------------------------------------------------------------------------------------


def lines(source: Source, progress: Progress = silent) -> Iterator[str]:
    """Yield the lines of a file of the OTLP file exporter: spans, then metrics."""
    for message in traces(source, progress):
        yield _line(message)
    told = metrics(source)
    if told.resource_metrics[0].scope_metrics[0].metrics:
        yield _line(told)


def _line(message: Any) -> str:
    from google.protobuf.json_format import MessageToDict

    plain = MessageToDict(message, use_integers_for_enums=True)
    return json.dumps(_in_hex(plain), ensure_ascii=True, separators=(",", ":")) + "\n"


def _in_hex(value: Any) -> Any:
    """Return the message with its identifiers in hex, as OTLP's JSON has them in place of base64."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex() if key in {"traceId", "spanId", "parentSpanId"} else _in_hex(item)
            for key, item in value.items()
        }
    return [_in_hex(item) for item in value] if isinstance(value, list) else value


def send(source: Source, endpoint: str, progress: Progress = silent) -> int:
    """Post spans and metrics to an OTLP/HTTP endpoint and return how many messages it took."""
    try:
        web.parts_of(endpoint)
    except ValueError as error:
        raise UsageError(f"--endpoint: {error}") from error
    base, sent = endpoint.rstrip("/"), 0
    for message in traces(source, progress):
        _post(f"{base}/v1/traces", message.SerializeToString())
        sent += 1
    _post(f"{base}/v1/metrics", metrics(source).SerializeToString())
    return sent + 1


def _post(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    try:
        status, _ = web.ask(url, body=body, headers=headers, timeout_s=_TIMEOUT_S, most=_MOST_ANSWER)
    except OSError as error:
        told = getattr(error, "reason", error)
        raise NetdiagError(f"the endpoint {web.origin(url)} cannot be reached: {told}") from error
    if not 200 <= status < 300:
        raise NetdiagError(f"the endpoint {web.origin(url)} answered {status}")


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).digest()


def _ns(instant: str | None) -> int | None:
    if instant is None:
        return None
    from datetime import datetime

    seconds = int(datetime.fromisoformat(f"{instant[:19]}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(instant[20:29])


def _attributes(holder: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if value is None:
            continue
        attribute = holder.add(key=key)
        if isinstance(value, bool):
            attribute.value.bool_value = value
        elif isinstance(value, int):
            attribute.value.int_value = value
        elif isinstance(value, float):
            attribute.value.double_value = value
        else:
            attribute.value.string_value = str(value)

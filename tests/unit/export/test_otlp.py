# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from netdiag.errors import NetdiagError, UsageError
from netdiag.export import otlp
from tests.fakes import calls, documents


def told(attributes):
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


def spans(messages):
    return [span for message in messages for span in message.resource_spans[0].scope_spans[0].spans]


@pytest.fixture
def receiver():
    got: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["Content-Type"], body))
            self.send_response(503 if "busy" in self.path else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_receiver_decodes_spans_and_metrics(receiver):
    url, got = receiver
    otlp.send(calls.source(), url)
    assert [(path, kind) for path, kind, _ in got] == [
        ("/v1/traces", "application/x-protobuf"),
        ("/v1/metrics", "application/x-protobuf"),
    ]
    message = ExportTraceServiceRequest.FromString(got[0][2])
    clients = [span for span in spans([message]) if span.kind == 3]
    assert len(clients) == 7
    streamed = told(clients[5].attributes)
    assert clients[5].name == "POST"
    assert clients[5].end_time_unix_nano - clients[5].start_time_unix_nano == 216_123_456
    assert clients[5].start_time_unix_nano == documents.START_NS + 910_123_457
    assert streamed["gen_ai.request.model"] == "gpt-x"
    assert streamed["gen_ai.operation.name"] == "chat"
    assert streamed["gen_ai.usage.output_tokens"] == 40
    assert streamed["server.address"] == "api.example.com"
    assert streamed["network.protocol.version"] == "2"
    retried = told(clients[6].attributes)
    assert retried["error.type"] == "503"
    assert retried["http.request.resend_count"] == 1
    assert clients[6].status.code == 2
    assert clients[6].trace_id == clients[5].trace_id
    assert "http.request.method" not in told(clients[0].attributes)
    metrics = ExportMetricsServiceRequest.FromString(got[1][2])
    found = {metric.name: metric for metric in metrics.resource_metrics[0].scope_metrics[0].metrics}
    assert set(found) == {
        "http.client.request.duration",
        "gen_ai.client.operation.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.client.token.usage",
    }
    points = found["http.client.request.duration"].histogram.data_points
    assert sum(point.count for point in points) == 7
    assert sum(point.sum for point in points) == pytest.approx((5 * 46 + 216.123456 + 46) / 1e3)
    assert all(sum(point.bucket_counts) == point.count for point in points)


def test_phases_are_children_that_follow_each_other():
    found = spans(otlp.traces(calls.source()))
    parents = {span.span_id: span for span in found if span.kind == 3}
    children = [span for span in found if span.parent_span_id]
    assert {span.name for span in children} == {"connect", "client_setup", "send", "wait", "receive"}
    for child in children:
        parent = parents[child.parent_span_id]
        assert parent.trace_id == child.trace_id
        assert parent.start_time_unix_nano <= child.start_time_unix_nano <= child.end_time_unix_nano
        assert child.end_time_unix_nano <= parent.end_time_unix_nano
    assert len({span.span_id for span in found}) == len(found)


def test_a_span_whose_end_is_not_known_holds_its_phases_and_tells_no_total():
    source = calls.source()
    cut = replace(source.tables, requests=source.tables.requests.assign(total_ms=np.nan))
    messages = list(otlp.traces(replace(source, tables=cut)))
    found = spans(messages)
    ends = {span.span_id: span.end_time_unix_nano for span in found if span.kind == 3}
    assert all(child.end_time_unix_nano <= ends[child.parent_span_id] for child in found if child.parent_span_id)
    parents = [span for span in found if span.kind == 3]
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for span in parents)
    assert not any("netdiag.total_ms" in told(span.attributes) for span in parents)


def test_the_file_form_has_identifiers_in_hex_and_is_the_same_twice():
    lines = list(otlp.lines(calls.source()))
    assert lines == list(otlp.lines(calls.source()))
    first = json.loads(lines[0])["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert len(first["traceId"]) == 32
    int(first["spanId"], 16)
    assert "resourceMetrics" in json.loads(lines[-1])
    Parse(lines[-1], ExportMetricsServiceRequest())


def test_nothing_is_sent_where_it_cannot_be(receiver):
    url, _ = receiver
    with pytest.raises(NetdiagError, match="503") as told:
        otlp.send(calls.source(), f"{url.replace('//', '//me:secret@')}/busy")
    assert "secret" not in told.value.message
    with pytest.raises(UsageError):
        otlp.send(calls.source(), "file:///etc/passwd")


def test_a_value_on_a_bound_is_below_it():
    histogram = otlp._Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 3.0):
        histogram.add(value)
    assert histogram.counts == [1, 1, 1]
    assert (histogram.least, histogram.most) == (1.0, 3.0)

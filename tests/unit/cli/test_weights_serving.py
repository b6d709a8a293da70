# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights serving`: files and a page of metrics, the client's share, and what it refuses."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.commands import call

PAGE = """vllm:num_requests_waiting{{engine="0"}} {waiting}
vllm:num_requests_running{{engine="0"}} 4
vllm:kv_cache_usage_perc{{engine="0"}} 0.4
vllm:cache_config_info{{block_size="16",num_gpu_blocks="1000",engine="0"}} 1
vllm:request_queue_time_seconds_sum{{engine="0"}} {queue}
vllm:request_queue_time_seconds_count{{engine="0"}} {count}
vllm:request_prefill_time_seconds_sum{{engine="0"}} {prefill}
vllm:request_prefill_time_seconds_count{{engine="0"}} {count}
vllm:time_to_first_token_seconds_sum{{engine="0"}} {ttft}
vllm:time_to_first_token_seconds_count{{engine="0"}} {count}
"""
FIRST = PAGE.format(waiting=5, queue=1, prefill=1, ttft=2, count=10)
BUSY = PAGE.format(waiting=5, queue=9, prefill=2, ttft=12, count=20)
QUIET = PAGE.format(waiting=0, queue=1.1, prefill=2, ttft=3.2, count=20)


def pages(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def test_a_queue_that_dominates_and_the_clients_share(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    called = call(capsys, "weights", "serving", *pages(tmp_path, FIRST, BUSY), "--ttft", "1500", "--format", "json")
    made = json.loads(called.out)
    assert [one["code"] for one in made["findings"]] == ["serving.queue-dominates"]
    assert made["client"] == {
        "client_ms": 1500.0, "network_ms": pytest.approx(500), "queue_ms": pytest.approx(800),
        "prefill_ms": pytest.approx(100),
    }  # fmt: skip
    assert made["engines"][0]["waiting"] == 5


def test_an_engine_without_a_queue_has_no_cause(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    called = call(capsys, "weights", "serving", *pages(tmp_path, FIRST, QUIET))
    assert called.status == 0
    assert "No cause stands out" in called.out
    assert "vllm" in called.out


def test_room_below_the_limit_while_requests_wait(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    called = call(capsys, "weights", "serving", *pages(tmp_path, FIRST, BUSY), "--max-seqs", "256")
    assert "serving.batch-underfilled" in called.out


def test_the_cache_is_computed_by_the_models_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 512,
                                  "torch_dtype": "float16", "max_position_embeddings": 4000}))  # fmt: skip
    called = call(capsys, "weights", "serving", *pages(tmp_path, FIRST, QUIET), "--model", str(config))
    assert "4.10 kB a token" in called.out
    assert "room for 4 sequences of 4,000" in called.out


class Metrics(http.server.BaseHTTPRequestHandler):
    """Two pages, one after the other; asked a third time, or elsewhere, it fails."""

    left: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        body = self.left.pop(0).encode() if self.path == "/metrics" and self.left else b""
        self.send_response(200 if body else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[str]:
    Metrics.left = [FIRST, BUSY]
    server = http.server.HTTPServer(("127.0.0.1", 0), Metrics)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_asked_twice(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    called = call(capsys, "weights", "serving", f"{engine}/metrics", "--seconds", "0.1")
    assert "serving.queue-dominates" in called.out
    again = call(capsys, "weights", "serving", f"{engine}/metrics?key=secret", "--seconds", "0.1")
    assert (again.status, "503" in again.err, "secret" in again.err) == (6, True, False)


@pytest.mark.parametrize(
    ("args", "status"),
    [(("one",), 2), (("ftp://x", "y", "z"), 2), (("http://",), 2), (("/none/a", "/none/b"), 6)],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], status: int) -> None:
    assert call(capsys, "weights", "serving", *args).status == status


def test_a_page_of_something_else_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call(capsys, "weights", "serving", *pages(tmp_path, "up 1\n", "up 1\n")).status == 6

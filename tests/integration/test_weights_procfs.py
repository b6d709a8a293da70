# SPDX-License-Identifier: Apache-2.0
"""Loads looked at by /proc alone, without rights, and traces of servers that end when they are ready."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from netdiag.assets import data_dir

if sys.platform != "linux":
    pytest.skip("/proc is Linux's", allow_module_level=True)
if shutil.which("cc") is None:
    pytest.skip("no C compiler", allow_module_level=True)

MIB = 1 << 20
SIZE = 64 * MIB
PASSES = 50
"""Over the file, where that is read again and again: a warm file is read within a few looks."""
SOURCE = Path(__file__).resolve().parents[1] / "fakes" / "weights" / "touch.c"
NETDIAG = (sys.executable, "-m", "netdiag", "weights", "--no-keep", "--tier", "procfs")
SERVER = """
import http.server, sys, time
time.sleep(0.3)
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
print("pid", __import__("os").getpid(), "is up", flush=True)
server.timeout = 20
while True:
    server.handle_request()
"""


@pytest.fixture(scope="module")
def touch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("procfs") / "touch"
    subprocess.run(["cc", "-O1", "-o", program, SOURCE, "-lpthread"], check=True, timeout=60)
    return program


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.weights"
    path.write_bytes(os.urandom(MIB) * (SIZE // MIB))
    return path


def looked(out: Path, *command: str | Path, options: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    argv = [*NETDIAG, *options, "--format", "json", "-o", out, "--", *command]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    return document, done.stdout


@pytest.mark.parametrize(("mode", "finding"), [("read4k", "weights.small-reads"), ("forward", None)])
def test_a_load_is_explained_without_kernel_programs(
    tmp_path: Path, touch: Path, model: Path, mode: str, finding: str | None
) -> None:
    document, _ = looked(tmp_path / "out.json", touch, mode, model, str(PASSES))
    schema = json.loads((data_dir("reports") / "schemas" / "netdiag.weights-1.json").read_text())
    jsonschema.validate(document, schema)
    load = document["load"]
    assert document["tier"]["name"] == "procfs"
    assert document["tier"]["recorder_cpu_ms"] > 0
    assert sum(row["ms"] for row in load["time"]) == pytest.approx(load["wall_ms"], abs=0.1)
    loud = {row["code"] for row in document["findings"] if row["severity"] != "info"}
    assert loud <= {finding}
    assert finding in {None, *(row["code"] for row in document["findings"])}
    if mode == "read4k":
        calls = PASSES * SIZE / 4096
        assert 0.8 * calls <= load["reads"] <= 1.1 * calls  # what came after the last look is not seen


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """Return a program that serves for longer than a test; it is ended afterwards."""
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    seen = tmp_path / "pid"
    yield path
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(seen.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("until", ["ready", r"is u[p]"])
def test_a_trace_of_a_server_ends_when_it_is_ready_and_the_server_runs_on(
    tmp_path: Path, server: Path, until: str
) -> None:
    log, errors = tmp_path / "log", tmp_path / "errors"  # files: the server holds them open for as long as it runs
    options = [*NETDIAG, "--until", until, "--format", "json", "-o", tmp_path / "out.json"]
    with log.open("wb") as out, errors.open("wb") as err:
        argv = [str(word) for word in (*options, "--", sys.executable, server)]
        done = subprocess.run(argv, stdout=out, stderr=err, timeout=60, check=False)
    words = log.read_text().split()
    (tmp_path / "pid").write_text(words[1])
    assert done.returncode == 0, errors.read_text()
    assert "what --until waits for came" in errors.read_text()
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["exit_reason"] == "ready"
    assert document["ready_ms"] >= 300
    os.kill(int(words[1]), 0)


def test_a_command_that_ends_before_it_is_ready_is_the_end(tmp_path: Path) -> None:
    document, out = looked(
        tmp_path / "out.json", "sh", "-c", "echo one; sleep 0.1; echo two", options=("--until", "never")
    )
    assert (document["exit_reason"], document["ready_ms"]) == ("command-exited", None)
    assert out == "one\ntwo\n"

# SPDX-License-Identifier: Apache-2.0
"""HTTPS servers that others wrote, each with a log of its own of what it was asked and what it answered.

A line of a log is a JSON object: `port` (the client's), `method`, `path`, `status`, `sent` (bytes of the body, with
chunk heads where nginx counts them), `protocol`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from netdiag.lab import certificate
from tests.kernel.harness import until

__all__ = ["SERVERS", "Serving", "built_go"]

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
LOG = (
    'log_format json escape=json \'{"port": "$remote_port", "method": "$request_method", '
    '"path": "$uri", "status": $status, "sent": $body_bytes_sent, "protocol": "$server_protocol"}\';'
)
PLAIN = """
location = /nothing { return 204; }
location = /missing { return 404 no; }
location = /large { alias %s; }
location / { default_type application/json; return 200 '{"data": []}'; }
"""
PROXY = """
location / { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1; proxy_set_header Connection "";
             proxy_buffering %s; }
"""


class Serving(NamedTuple):
    """A server that listens."""

    port: int
    log: Path
    ca: Path
    h2: bool
    """It speaks HTTP/2 with those who can."""
    streams: bool
    """It has a model behind it."""

    def answered(self, count: int) -> list[dict[str, Any]]:
        """Return its log once it has so many lines, or after two seconds."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + 2.0
        while len(found) < count and time.monotonic() < deadline:
            text = self.log.read_text() if self.log.exists() else ""
            found = [json.loads(line) for line in text.splitlines()]
            time.sleep(0.02)
        return [{**entry, "port": int(entry["port"])} for entry in found]


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def _program(*argv: str, log: Path, port: int) -> Iterator[None]:
    env = {**os.environ, "MATRIX_LOG": str(log), "PYTHONPATH": str(CLIENTS)}
    with log.with_suffix(".said").open("wb") as said:
        process = subprocess.Popen(argv, env=env, stdout=said, stderr=said, cwd=log.parent)
    try:
        until(lambda: _listens(port) or process.poll() is not None, 30.0)
        assert process.poll() is None, log.with_suffix(".said").read_text()
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextlib.contextmanager
def _uvicorn(folder: Path, python: str, *, tls: bool = True) -> Iterator[Serving]:
    key, cert = certificate.make(folder) if tls else (folder / "key.pem", folder / "cert.pem")
    port, log = _free(), folder / "uvicorn.log"
    secure = ["--ssl-keyfile", str(key), "--ssl-certfile", str(cert)] if tls else []
    words = ["-m", "uvicorn", "matrix_app:app", "--port", str(port), "--log-level", "warning", "--no-access-log"]
    with _program(python, *words, *secure, log=log, port=port):
        yield Serving(port, log, cert, h2=False, streams=True)


@contextlib.contextmanager
def _hypercorn(folder: Path, python: str) -> Iterator[Serving]:
    key, cert = certificate.make(folder)
    port, log = _free(), folder / "hypercorn.log"
    words = ["-m", "hypercorn", "matrix_app:app", "-b", f"127.0.0.1:{port}", "--keyfile", str(key)]
    with _program(python, *words, "--certfile", str(cert), log=log, port=port):
        yield Serving(port, log, cert, h2=True, streams=True)


def built_go(folder: Path) -> str | None:
    """Return the program with both ends in Go, None where there is no compiler."""
    if shutil.which("go") is None:
        return None
    out = folder / "matrix"
    if not out.exists():
        env = {**os.environ, "GO111MODULE": "off", "GOFLAGS": ""}
        subprocess.run(["go", "build", "-o", out, CLIENTS / "matrix.go"], check=True, env=env)
    return str(out)


@contextlib.contextmanager
def _go(folder: Path, program: str) -> Iterator[Serving]:
    key, cert = certificate.make(folder)
    log = folder / "go.log"
    process = subprocess.Popen([program, "serve", cert, key, log], stdout=-1, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield Serving(int(process.stdout.readline()), log, cert, h2=True, streams=True)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def _nginx(folder: Path, python: str, *, h2: bool, buffering: str | None = None) -> Iterator[Serving]:
    with contextlib.ExitStack() as stack:
        key, cert = certificate.make(folder)
        port, log = _free(), folder / "nginx.log"
        large = folder / "large"
        large.write_bytes(b"x" * 300_000)
        folder.chmod(0o755)
        where = PLAIN % large
        if buffering is not None:
            behind = stack.enter_context(_uvicorn(folder, python, tls=False))
            where = PROXY % (behind.port, buffering)
        config = folder / "nginx.conf"
        config.write_text(
            f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; user root; worker_processes 1;\n"
            f"events {{}} http {{ {LOG} access_log {log} json; client_body_temp_path {folder}/body;\n"
            f"proxy_temp_path {folder}/proxy; server {{ listen 127.0.0.1:{port} ssl{' http2' if h2 else ''};\n"
            f"ssl_certificate {cert}; ssl_certificate_key {key}; {where} }} }}\n"
        )
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        stack.enter_context(_program(nginx, "-e", f"{folder}/error.log", "-c", str(config), log=log, port=port))
        yield Serving(port, log, cert, h2=h2, streams=buffering is not None)


SERVERS: dict[str, Callable[[Path, str, str], contextlib.AbstractContextManager[Serving]]] = {
    "nginx": lambda folder, python, _: _nginx(folder, python, h2=False),
    "nginx-h2": lambda folder, python, _: _nginx(folder, python, h2=True),
    "nginx-proxy": lambda folder, python, _: _nginx(folder, python, h2=True, buffering="on"),
    "nginx-unbuffered": lambda folder, python, _: _nginx(folder, python, h2=False, buffering="off"),
    "uvicorn": lambda folder, python, _: _uvicorn(folder, python),
    "hypercorn": lambda folder, python, _: _hypercorn(folder, python),
    "go": lambda folder, _, go: _go(folder, go),
}
"""Name → what starts it in a folder, with a Python that has the libraries, and the program in Go."""

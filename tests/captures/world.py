# SPDX-License-Identifier: Apache-2.0
"""A network namespace with nginx, Go, Node, Python and OpenSSL servers that write down what they saw. Needs root."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent

__all__ = ["World"]

NGINX = """
daemon off; master_process on; worker_processes 1; user root; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format facts escape=json '{{"server_port": $server_port, "client_port": $remote_port, "status": $status,'
    '"method": "$request_method", "path": "$request_uri", "protocol": "$server_protocol", "version": "$ssl_protocol",'
    '"cipher": "$ssl_cipher", "reused": "$ssl_session_reused", "sni": "$ssl_server_name"}}';
  access_log {folder}/truth facts;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  ssl_session_cache none; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  ssl_session_ticket_key {folder}/ticket.key;
  {servers}
}}
"""
SERVER = """
  server {{
    listen 127.0.0.1:{port} {listen}; root {folder}/www;
    {settings}
    location /status/404 {{ return 404 "none"; }}
    location /status/429 {{ add_header Retry-After 1 always; return 429 "later"; }}
    location /status/500 {{ return 500 "broken"; }}
    location /api/ {{ proxy_pass http://127.0.0.1:{plain}/; proxy_buffering off; proxy_http_version 1.1; }}
  }}
"""
PORTS = {
    8402: ("ssl", "ssl_protocols TLSv1.2; ssl_session_cache shared:b:1m;"),
    8412: ("ssl", "ssl_protocols TLSv1.2;"),
    8413: ("ssl", "ssl_protocols TLSv1.3;"),
    8414: ("ssl", "ssl_protocols TLSv1.2 TLSv1.3;"),
    8422: ("ssl", "ssl_protocols TLSv1.2; ssl_session_tickets off; ssl_session_cache shared:a:1m;"),
    8423: ("ssl", "ssl_protocols TLSv1.3; ssl_session_tickets off;"),
    8424: ("ssl", "ssl_protocols TLSv1.2; ssl_session_tickets off;"),
    8432: ("ssl http2", "ssl_protocols TLSv1.2;"),
    8433: ("ssl http2", "ssl_protocols TLSv1.3;"),
    8443: ("ssl", "ssl_protocols TLSv1.3; keepalive_requests 3;"),
    8453: ("ssl", "ssl_protocols TLSv1.3; ssl_early_data on;"),
    8462: ("ssl", "ssl_protocols TLSv1.2; keepalive_timeout 0;"),
    8463: ("ssl", "ssl_protocols TLSv1.3; keepalive_timeout 0;"),
    8473: ("ssl", "ssl_protocols TLSv1.3; ssl_ecdh_curve secp384r1;"),
    8483: ("ssl", "ssl_protocols TLSv1.3; keepalive_timeout 1s;"),
    8080: ("", ""),
    8081: ("http2", ""),
}
"""Of nginx: how it listens, and its settings."""
GO, GO_H2, NODE, NODE_H2, PYTHON, PLAIN = 8601, 8602, 8611, 8612, 8621, 8622
TRUTHS = ("truth", "go", "go2", "node", "node2", "python", "plain")
NAMES = "subjectAltName=DNS:localhost,DNS:api.lab.test,IP:127.0.0.1"


class World:
    """The servers, and what they wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._stack = folder, contextlib.ExitStack()
        self.name = f"ndcap-{os.getpid()}"
        self._read: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make(self) -> None:
        run(["ip", "netns", "add", self.name])
        self._stack.callback(run, ["ip", "netns", "del", self.name])
        self.run(["ip", "link", "set", "lo", "mtu", "1500", "up"])
        # without offloads segments are those that a network would see
        subprocess.run(self.inside(["ethtool", "-K", "lo", "tso", "off", "gso", "off", "gro", "off"]), check=False,
                       stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        self._files()
        env = os.environ | {"GOCACHE": str(self.folder / "gocache"), "HOME": str(self.folder)}
        self.go = self.folder / "peer"
        subprocess.run(["go", "build", "-o", str(self.go), str(HERE / "peer.go")], check=True, env=env)
        self._serve()

    def _files(self) -> None:
        at = self.folder
        (at / "www").mkdir()
        (at / "www" / "index.html").write_text("answer " * 300)
        (at / "www" / "large").write_bytes(os.urandom(120_000))
        (at / "ticket.key").write_bytes(os.urandom(80))
        run(["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-keyout", f"{at}/key.pem", "-out",
             f"{at}/cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", NAMES])  # fmt: skip
        (at / "pair.pem").write_bytes((at / "key.pem").read_bytes() + (at / "cert.pem").read_bytes())

    def _serve(self) -> None:
        at = self.folder
        servers = "".join(
            SERVER.format(port=port, listen=listen, settings=settings, folder=at, plain=PLAIN)
            for port, (listen, settings) in PORTS.items()
        )
        (at / "nginx.conf").write_text(NGINX.format(folder=at, servers=servers))
        pair = [f"{at}/cert.pem", f"{at}/key.pem"]
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        self._start([nginx, "-c", f"{at}/nginx.conf", "-p", str(at)])
        self._start([str(self.go), "serve", str(GO), *pair, f"{at}/go"])
        self._start([str(self.go), "serve", str(GO_H2), *pair, f"{at}/go2", "h2"])
        self._start(["node", str(HERE / "peer.mjs"), "serve", str(NODE), *pair, f"{at}/node"])
        self._start(["node", str(HERE / "peer.mjs"), "serve", str(NODE_H2), *pair, f"{at}/node2", "h2"])
        self._start([sys.executable, str(HERE / "peer.py"), "serve", str(PYTHON), f"{at}/pair.pem", f"{at}/python"])
        self._start([sys.executable, str(HERE / "peer.py"), "serve", str(PLAIN), "-", f"{at}/plain"])
        self._wait([*PORTS, GO, GO_H2, NODE, NODE_H2, PYTHON, PLAIN])

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command as it runs in the namespace."""
        return ["ip", "netns", "exec", self.name, *argv]

    def run(self, argv: Sequence[str], *, keys: Path | None = None, text: str = "", wait_s: float = 20) -> str:
        """Run a client to its end; what it says on stdout."""
        env = dict(os.environ) | ({"SSLKEYLOGFILE": str(keys)} if keys else {})
        env |= {"NODE_EXTRA_CA_CERTS": str(self.folder / "cert.pem"), "REQUESTS_CA_BUNDLE": f"{self.folder}/cert.pem"}
        done = subprocess.run(self.inside(argv), check=False, capture_output=True, text=True, env=env, timeout=wait_s,
                              input=text)  # fmt: skip
        return done.stdout

    def _start(self, argv: Sequence[str]) -> None:
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(self.inside(argv), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        self._stack.callback(_end, process)

    @contextlib.contextmanager
    def server(self, argv: Sequence[str], port: int) -> Iterator[None]:
        """Have one more server for a while."""
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(self.inside(argv), stdin=subprocess.PIPE, stdout=quiet, stderr=quiet,
                                   start_new_session=True)  # fmt: skip
        try:
            self._wait([port])
            yield
        finally:
            _end(process)

    def _wait(self, ports: Sequence[int]) -> None:
        """Wait until all ports are listened on, without connecting to them."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            table = subprocess.run(self.inside(["ss", "-Hltn"]), check=True, capture_output=True, text=True).stdout
            there = {int(line.split()[3].rpartition(":")[2]) for line in table.splitlines()}
            if set(ports) <= there:
                return
            time.sleep(0.05)
        raise TimeoutError(f"nobody listens on {sorted(set(ports) - there)}")

    @contextlib.contextmanager
    def captured(self, path: Path) -> Iterator[None]:
        """Capture what passes on loopback meanwhile."""
        argv = ["tcpdump", "-i", "lo", "-w", str(path), "-U", "-B", "16384", "--immediate-mode", "-n", "ip"]
        process = subprocess.Popen(self.inside(argv), stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stderr is not None
        while "listening on" not in process.stderr.readline():
            if process.poll() is not None:
                raise RuntimeError("tcpdump did not start")
        try:
            yield
            time.sleep(0.15)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()

    def said(self) -> list[dict[str, Any]]:
        """Return what the servers wrote since the last time."""
        found = []
        for name in TRUTHS:
            path = self.folder / name
            if path.exists():
                with path.open() as file:
                    file.seek(self._read.get(name, 0))
                    found += [json.loads(line) for line in file if line.endswith("\n")]
                    self._read[name] = path.stat().st_size
        return found


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run(argv: Sequence[str]) -> None:
    """Run a command that must succeed."""
    subprocess.run(argv, check=True, capture_output=True)


def _end(process: subprocess.Popen[Any]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

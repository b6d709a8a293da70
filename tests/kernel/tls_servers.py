# SPDX-License-Identifier: Apache-2.0
"""nginx and `openssl s_server` for tests, with what each says of its handshakes and requests."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from netdiag.lab.proxy import free_port, wait_for

__all__ = ["Authority", "Logged", "Nginx", "Upstream", "nginx", "s_server", "upstream"]

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"
CONFIG = """
daemon off; master_process {master}; worker_processes 1; user root; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format facts escape=json '["$server_port", $remote_port, $connection_requests, "$ssl_protocol",'
    ' "$ssl_session_reused", "$ssl_cipher", "$ssl_curve", "$ssl_server_name", $request_time,'
    ' "$upstream_header_time", "$server_protocol", $bytes_sent]';
  access_log {folder}/access.log facts;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  proxy_buffering off;
  ssl_session_cache none;
  {servers}
}}
"""
SERVER = """
  server {{
    listen 127.0.0.1:{port} ssl{http2};
    ssl_certificate {cert}; ssl_certificate_key {key};
    {settings}
    location /keep {{ {answer} }}
    location /close {{ keepalive_timeout 0; {answer} }}
  }}
"""


class Authority:
    """A certificate authority of its own, for certificates that every library takes."""

    def __init__(self, folder: Path, name: str = "test") -> None:
        self.folder = folder
        self.cert, self._key = folder / "ca.pem", folder / "ca.key"
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                      "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.cert)  # fmt: skip

    def _openssl(self, command: str, *rest: object) -> None:
        words = ["openssl", command, "-nodes", "-days", "2", *map(str, rest)]
        subprocess.run(words, check=True, capture_output=True)

    def issue(
        self, name: str, *kind: str, names: int = 0, usage: str = "serverAuth", by: tuple[Path, Path] | None = None
    ) -> tuple[Path, Path]:
        """Return key and certificate files; `kind` are the arguments that make the key, `names` more names pad it.

        `by` are key and certificate of who issues it, the authority itself unless told.
        """
        key, cert = self.folder / f"{name}.key", self.folder / f"{name}.pem"
        kind = kind or ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        issuer_key, issuer = by or (self._key, self.cert)
        padding = "".join(f",DNS:padding{number:05d}.test" for number in range(names))
        self._openssl("req", "-x509", *kind, "-subj", "/CN=localhost", "-CA", issuer, "-CAkey", issuer_key,
                      "-addext", NAMES + padding, "-addext", "basicConstraints=critical,CA:FALSE",
                      "-addext", f"extendedKeyUsage={usage}", "-keyout", key, "-out", cert)  # fmt: skip
        return key, cert

    def intermediate(self, name: str, *, names: int = 0) -> tuple[Path, Path]:
        """Return key and certificate of an authority that this one vouches for."""
        key, cert = self.folder / f"{name}.key", self.folder / f"{name}.pem"
        padding = ["-addext", NAMES + "".join(f",DNS:padding{number:05d}.test" for number in range(names))]
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                      "-subj", f"/CN={name}", "-CA", self.cert, "-CAkey", self._key,
                      "-addext", "basicConstraints=critical,CA:TRUE", *(padding if names else []),
                      "-keyout", key, "-out", cert)  # fmt: skip
        return key, cert

    def bundle(self, name: str, *certs: Path) -> Path:
        """Return a file with several certificates, one after the other."""
        file = self.folder / f"{name}.pem"
        file.write_text("".join(cert.read_text() for cert in certs))
        return file


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One request as nginx logged it."""

    server: int
    port: int
    """Of the client's end."""
    number: int
    """Of the request on its connection, from 1."""
    version: str
    resumed: bool
    cipher: str
    group: str
    sni: str | None
    request_ms: float
    header_ms: float | None
    """Until the upstream's answer began."""
    protocol: str
    sent: int


class Nginx:
    """A running nginx with several TLS servers, by name."""

    def __init__(self, folder: Path, ports: Mapping[str, int], pid: int) -> None:
        self.ports, self.pid = ports, pid
        self._log = folder / "access.log"

    def url(self, name: str, path: str = "") -> str:
        """Return the address of one server."""
        return f"https://localhost:{self.ports[name]}{path}"

    def logged(self, expected: int = 0) -> list[Logged]:
        """Return every request so far, and wait a little for as many as are expected."""
        deadline = time.monotonic() + 2.0
        while len(lines := self._log.read_text().splitlines()) < expected and time.monotonic() < deadline:
            time.sleep(0.02)
        return [_logged(json.loads(line)) for line in lines]


def _logged(words: list[str]) -> Logged:
    server, port, number, version, reused, cipher, group, sni, took, header, protocol, sent = words
    return Logged(
        server=int(server),
        port=int(port),
        number=int(number),
        version=version,
        resumed=reused == "r",
        cipher=cipher,
        group=group,
        sni=sni or None,
        request_ms=float(took) * 1000,
        header_ms=float(header) * 1000 if header not in ("", "-") else None,
        protocol=protocol,
        sent=int(sent),
    )


@contextlib.contextmanager
def nginx(
    folder: Path,
    servers: Mapping[str, str],
    keys: Mapping[str, tuple[Path, Path]],
    *,
    answer: str = 'return 200 "hello\\n";',
    master: bool = False,
) -> Iterator[Nginx]:
    """Run nginx with a server for each name: its settings, and its key and certificate (`*` for the rest).

    With `master` it has a worker, and can reload. In settings `{name}` stands for the port of the server of that name.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("needs nginx")
    folder.mkdir(exist_ok=True)
    ports = {name: free_port() for name in servers}
    texts = []
    for name, own in servers.items():
        key, cert = keys.get(name, keys["*"])
        http2 = " http2" if name.endswith("h2") else ""
        settings = own.format(**ports)
        texts.append(SERVER.format(port=ports[name], http2=http2, cert=cert, key=key, settings=settings, answer=answer))
    (folder / "nginx.conf").write_text(
        CONFIG.format(folder=folder, master="on" if master else "off", servers="".join(texts))
    )
    command = [program, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            for port in ports.values():
                wait_for(port)
            yield Nginx(folder, ports, process.pid)
        finally:
            process.terminate()


@contextlib.contextmanager
def s_server(key: Path, cert: Path, *more: str) -> Iterator[int]:
    """Run `openssl s_server -www`, which tells each client what was agreed; yields its port."""
    port = free_port()
    command = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(cert), "-key", str(key), "-quiet"]
    with subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield port
        finally:
            process.terminate()


class Upstream(http.server.ThreadingHTTPServer):
    """An API on plain HTTP that takes its time, now more, now less."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.directive = f"proxy_pass http://127.0.0.1:{self.server_address[1]};"
        """Lets nginx ask it."""
        self.took_ms: list[float] = []
        """By request, in order: from its coming to the answer's beginning."""


class _Answers(http.server.BaseHTTPRequestHandler):
    server: Upstream

    def do_GET(self) -> None:
        self._answer(b"hello\n", "text/plain")

    def do_POST(self) -> None:
        began = time.monotonic_ns()
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        chunk = {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
        message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
        if not asked.get("stream"):
            self._answer(json.dumps({**chunk, "choices": [message]}).encode(), "application/json", began)
            return
        event = json.dumps({**chunk, "object": "chat.completion.chunk"})
        self._answer(None, "text/event-stream", began)
        for data in (*[event] * 4, "[DONE]"):
            self.wfile.write(f"data: {data}\n\n".encode())
            time.sleep(0.005)

    def _answer(self, body: bytes | None, kind: str, began: int | None = None) -> None:
        began = began or time.monotonic_ns()
        time.sleep(0.008 + 0.006 * (len(self.server.took_ms) % 4))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.server.took_ms.append((time.monotonic_ns() - began) / 1e6)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_words: object) -> None:
        pass


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """Serve plain HTTP that nginx can ask."""
    with Upstream() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

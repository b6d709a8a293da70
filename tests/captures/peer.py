# SPDX-License-Identifier: Apache-2.0
"""`peer.py serve PORT PAIR TRUTH` answers over TLS (PAIR `-`: in the clear) and writes down what it saw of requests."""

from __future__ import annotations

import http.server
import json
import ssl
import sys
import time
from pathlib import Path


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers /sse with a stream of events, /status/N with that status, everything else with 200."""

    protocol_version = "HTTP/1.1"
    truth: Path
    server: Server

    def do_GET(self) -> None:
        """Answer."""
        path = self.path.partition("?")[0]
        status = int(path[8:]) if path.startswith("/status/") else 200
        seen = {
            "server_port": self.server.port, "client_port": self.client_address[1],
            "method": self.command, "path": path, "status": status, "protocol": self.request_version,
        }  # fmt: skip
        if isinstance(self.connection, ssl.SSLSocket):
            cipher = self.connection.cipher()
            seen |= {"version": self.connection.version(), "cipher": cipher[0] if cipher else None}
            seen |= {"reused": self.connection.session_reused, "sni": getattr(self.connection, "named", "")}
        with self.truth.open("a") as file:
            print(json.dumps(seen), file=file)
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(status)
        if path == "/sse":
            self._stream()
            return
        body = b"answer " * 500
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the base class calls it by this name

    def _stream(self) -> None:
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(10):
            time.sleep(0.01)
            event = b'data: {"choices":[{"delta":{"content":"t%d"}}]}\n\n' % number
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    """One thread a connection; handshakes happen there."""

    context: ssl.SSLContext | None = None
    port = 0

    def finish_request(self, request, client_address) -> None:
        """Shake hands, then answer."""
        if self.context is not None:
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except (ssl.SSLError, OSError):
                return
        Answers(request, client_address, self)

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients go away."""


def main(port: str, pair: str, truth: str) -> None:
    """Serve until the process ends."""
    Answers.truth = Path(truth)
    server = Server(("127.0.0.1", int(port)), Answers)
    server.port = int(port)
    if pair != "-":
        server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.context.load_cert_chain(pair)

        def named(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            connection.named = name or ""  # type: ignore[attr-defined]

        server.context.sni_callback = named
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[2:])

# SPDX-License-Identifier: Apache-2.0
"""The servers behind a virtual way: HTTPS with the headers that the file names. `… -m netdiag.route.lab.origin FILE`.

It listens on port 443 of every address of its namespace, prints `ready`, and runs until SIGTERM. Each connection gets
one thread and any number of answers; the headers are those of the address, or of the way that the flow took.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from netdiag.lab import certificate
from netdiag.route.lab.emulator import Emulator, flow_of
from netdiag.route.lab.lifeline import end_with_starter
from netdiag.route.lab.topology import Topology, load

__all__ = ["PORT", "answer", "headers_for", "main"]

PORT = 443
_BODY = b"{}\n"


def headers_for(topology: Topology, local: tuple[str, int], remote: tuple[str, int]) -> Mapping[str, str]:
    """Return the headers that a client at `remote` gets from the address `local`."""
    site = topology.site(local[0])
    if site is None:
        return {}
    if not site.way_headers:
        return site.headers
    way = Emulator.way(site, flow_of("tcp", remote, local))
    return site.way_headers[site.ways.index(way)]


def answer(headers: Mapping[str, str], *, with_body: bool) -> bytes:
    """Return one HTTP/1.1 answer."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(_BODY)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + (_BODY if with_body else b"")


def _serve(sock: socket.socket, context: ssl.SSLContext, headers: Mapping[str, str]) -> None:
    try:
        with context.wrap_socket(sock, server_side=True) as secure, secure.makefile("rb") as reader:
            while request := reader.readline():
                while reader.readline() not in (b"\r\n", b"\n", b""):
                    pass
                secure.sendall(answer(headers, with_body=not request.startswith(b"HEAD ")))
    except (OSError, ValueError):  # the client is gone: connections that only measure end like this
        return
    finally:
        sock.close()


def _accept(listener: socket.socket, context: ssl.SSLContext, topology: Topology) -> None:
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the answer waits for the tickets' ACK
        try:
            local, remote = sock.getsockname()[:2], sock.getpeername()[:2]
        except OSError:  # reset before it was accepted
            sock.close()
            continue
        headers = headers_for(topology, local, remote)
        threading.Thread(target=_serve, args=(sock, context, headers), daemon=True).start()


def main() -> None:
    """Serve as the file says."""
    topology = load(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    end_with_starter()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="ndroute-") as folder:
        key, cert = certificate.make(Path(folder), padding=topology.certificate_names)
        context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["http/1.1"])
    listeners = [
        socket.create_server(("0.0.0.0", PORT), backlog=512),  # noqa: S104 - a private namespace
        socket.create_server(("::", PORT), family=socket.AF_INET6, backlog=512),
    ]
    for listener in listeners:
        threading.Thread(target=_accept, args=(listener, context, topology), daemon=True).start()
    print("ready", flush=True)  # noqa: T201 - whoever started it waits for this line
    threading.Event().wait()


if __name__ == "__main__":
    main()

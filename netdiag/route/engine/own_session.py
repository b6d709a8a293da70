# SPDX-License-Identifier: Apache-2.0
"""A TLS connection of ours that is kept open while its own flow is probed: the way that a program's packets take."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator

from netdiag.route.engine.session import Endpoints, Numbers, learn

__all__ = ["Refused", "opened"]

_LEARN_S = 3.0
_LISTENING_S = 0.05
"""Until the raw listener surely is there; what comes before it would be missed."""


class Refused(Exception):  # noqa: N818 - what happened, in words for a trace
    """The connection could not be made or taught nothing; the message says why, for `Trace.error`."""


@contextlib.contextmanager
def opened(ip: str, port: int, server_name: str, *, wait_s: float = 3.0) -> Iterator[tuple[Endpoints, Numbers]]:
    """Yield an open connection's ends and where its streams stand, after two `HEAD /` on it.

    Certificates are not verified: nothing but those requests is sent, and nothing of the answers is kept.
    PermissionError without raw sockets, `Refused` where there is no connection to be had.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    try:
        with (
            socket.create_connection((ip, port), timeout=wait_s) as sock,
            context.wrap_socket(sock, server_hostname=server_name) as secure,
        ):
            local, remote = secure.getsockname(), secure.getpeername()
            ends = Endpoints(local_ip=local[0], local_port=local[1], remote_ip=remote[0], remote_port=remote[1])
            numbers = _numbers(secure, ends, server_name)
            if numbers is None:
                raise Refused("the connection's numbers could not be learned: the far end stayed silent")
            yield ends, numbers
    except PermissionError:
        raise
    except OSError as error:
        raise Refused(f"no connection of our own to probe inside: {error.strerror or error}") from error


def _numbers(secure: ssl.SSLSocket, ends: Endpoints, server_name: str) -> Numbers | None:
    """Ask twice and learn from the second answer: tickets of the handshake come with the first one."""
    name = server_name.encode("idna") if not server_name.isascii() else server_name.encode()
    head = b"HEAD / HTTP/1.1\r\nHost: " + name + b"\r\nUser-Agent: netdiag\r\nAccept: */*\r\n\r\n"
    secure.sendall(head)
    secure.recv(65536)
    found: list[Numbers | None] = []
    failed: list[PermissionError] = []

    def listen() -> None:
        try:
            found.append(learn(ends, _LEARN_S))
        except PermissionError as error:
            failed.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    time.sleep(_LISTENING_S)
    if not failed:
        secure.sendall(head)
        secure.recv(65536)
    thread.join()
    if failed:
        raise failed[0]
    return found[0] if found else None

# SPDX-License-Identifier: Apache-2.0
"""ClientHellos of chosen sizes on ordinary connections: whether packets of full size get there, and such come back.

Needs no rights. A hello of over one packet is what clients with post-quantum key shares send. Nothing of an answer is
kept but how many bytes came.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from netdiag.route.model import Greeting

__all__ = ["LARGE", "SMALL_MSS", "client_hello", "run"]

SMALL_MSS = 1180
"""Its packets fit into every tunnel that carries IPv6 (1280 bytes)."""
LARGE = 1800
"""Bytes of a hello with a post-quantum key share (X25519MLKEM768): more than one packet carries."""
_TIMES = 3
"""Each sort of hello; one lost packet must not look like a rule."""
_PLANS: tuple[tuple[int | None, int], ...] = ((None, 0), (None, LARGE), (SMALL_MSS, 0), (SMALL_MSS, LARGE))
_PADDING = 21
_RECORD_HEAD, _HELLO_HEAD = 5, 4
_LINGER_RESET = struct.pack("ii", 1, 0)
_INFO_RCV_MSS, _INFO_UNACKED = 20, 24
_IP_MTU, _IPV6_MTU = 14, 24


def client_hello(server_name: str, size: int = 0) -> bytes:
    """Return a TLS record that holds a ClientHello, padded (RFC 7685) to `size` bytes where that is more."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=server_name).do_handshake()
    plain = outgoing.read()
    if len(plain) >= size:
        return plain
    at = _extensions_at(plain)
    kept = _without(plain[at + 2 :], _PADDING)
    missing = size - at - 2 - len(kept) - 4
    kept += struct.pack("!HH", _PADDING, missing) + bytes(missing)
    body = plain[_RECORD_HEAD + _HELLO_HEAD : at] + struct.pack("!H", len(kept)) + kept
    hello = plain[_RECORD_HEAD : _RECORD_HEAD + 1] + len(body).to_bytes(3, "big") + body
    return plain[:3] + struct.pack("!H", len(hello)) + hello


def _extensions_at(record: bytes) -> int:
    """Return where the length of a hello's extensions stands."""
    at = _RECORD_HEAD + _HELLO_HEAD + 2 + 32
    at += 1 + record[at]  # session id
    at += 2 + int.from_bytes(record[at : at + 2], "big")  # cipher suites
    return at + 1 + record[at]  # compression methods


def _without(extensions: bytes, kind: int) -> bytes:
    kept, at = b"", 0
    while at + 4 <= len(extensions):
        found, length = struct.unpack_from("!HH", extensions, at)
        if found != kind:
            kept += extensions[at : at + 4 + length]
        at += 4 + length
    return kept


def run(ip: str, port: int, server_name: str, *, wait_s: float = 1.2) -> tuple[Greeting, ...]:
    """Return hellos of two sizes, each with the system's and with a small segment size, all at the same time."""
    hellos = {size: client_hello(server_name, size) for _, size in _PLANS}
    plans = [plan for plan in _PLANS for _ in range(_TIMES)]
    with ThreadPoolExecutor(max_workers=len(plans)) as pool:
        jobs = [pool.submit(_greet, ip, port, mss, hellos[size], wait_s) for mss, size in plans]
        return tuple(job.result() for job in jobs)


def _greet(ip: str, port: int, mss: int | None, hello: bytes, wait_s: float) -> Greeting:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        if mss is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        sock.settimeout(3.0)
        began = time.monotonic()
        try:
            sock.connect((ip, port))
        except OSError:
            return Greeting(mss=mss, size=len(hello), connected=False)
        trip_s = time.monotonic() - began
        before = _path_mtu(sock)
        received = _talk(sock, hello, max(wait_s, 6 * trip_s), quiet_s=max(0.05, 1.5 * trip_s))
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        known = len(info) >= _INFO_UNACKED + 4
        (largest,) = struct.unpack_from("=I", info, _INFO_RCV_MSS) if known and received else (None,)
        (unacked,) = struct.unpack_from("=I", info, _INFO_UNACKED) if known else (None,)
        return Greeting(
            mss=mss,
            size=len(hello),
            connected=True,
            acked=None if unacked is None else unacked == 0,
            received=received,
            largest=largest,
            mtu=_path_mtu(sock),
            mtu_before=before,
        )


def _talk(sock: socket.socket, hello: bytes, wait_s: float, *, quiet_s: float) -> int:
    """Send a hello and count what comes back until nothing more does, or `wait_s` are over."""
    received, end = 0, time.monotonic() + wait_s
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    try:
        sock.sendall(hello)
        while (left := end - time.monotonic()) > 0:
            if not poll.poll((min(left, quiet_s) if received else left) * 1000):
                break
            data = sock.recv(65536)
            received += len(data)
            if not data:
                break
    except OSError as error:
        return received if error.errno in (errno.ECONNRESET, errno.EPIPE) else 0
    return received


def _path_mtu(sock: socket.socket) -> int | None:
    level, name = (socket.IPPROTO_IPV6, _IPV6_MTU) if sock.family == socket.AF_INET6 else (socket.IPPROTO_IP, _IP_MTU)
    try:
        return sock.getsockopt(level, name) or None
    except OSError:
        return None

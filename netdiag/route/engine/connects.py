# SPDX-License-Identifier: Apache-2.0
"""Connections that only measure: TCP connect, on demand the TLS handshake and the head of one HTTP answer.

One after the other, each from a new source port. Nothing of an answer is kept but status, time and the named headers.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import struct
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from netdiag.route.engine.tcp_connect import handshake_rtt_ms
from netdiag.route.model import Attempt, Clock, Connect, ConnectOutcome, HttpAnswer, Tls
from netdiag.route.prober import ConnectRequest

__all__ = ["parse_head", "run"]

_OUTCOMES = {
    errno.ECONNREFUSED: ConnectOutcome.REFUSED,
    errno.ECONNRESET: ConnectOutcome.RESET,
    errno.ETIMEDOUT: ConnectOutcome.TIMEOUT,
    errno.EHOSTUNREACH: ConnectOutcome.UNREACHABLE,
    errno.ENETUNREACH: ConnectOutcome.UNREACHABLE,
}
_REFUSED_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
_TIMEOUT = "timeout"
_RETRANS_AT = 100
_MOST_HEAD_BYTES = 64 << 10
_MOST_VALUE = 256
_LINGER_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A connection that stands, or why it does not."""

    outcome: ConnectOutcome
    connect_ms: float | None
    clock: Clock
    error: str | None
    retransmits: int | None


def run(request: ConnectRequest, *, base_ns: int) -> Connect:
    """Return the attempts, in order; a failed one does not end the others.

    Certificates are verified until one is refused; then the rest is measured without, and says that it is not trusted.
    """
    attempts: list[Attempt] = []
    context = _context(verify=True) if request.tls_attempts and request.server_name else None
    number = 0
    while number < request.attempts:
        if attempts and request.pause_s:
            time.sleep(request.pause_s)
        attempts.append(_attempt(request, number, base_ns, context))
        if attempts[-1].error == _REFUSED_CERTIFICATE:
            context = _context(verify=False)
            continue
        if attempts[-1].error == _TIMEOUT:
            context = None  # another wait would tell no more than this one
        number += 1
    return Connect(ip=request.ip, port=request.port, attempts=tuple(attempts), landmark=request.landmark)


@cache
def _context(*, verify: bool) -> ssl.SSLContext:
    """Return the one context of all connections: reading the system's certificates takes 30 ms each time."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def _attempt(request: ConnectRequest, number: int, base_ns: int, context: ssl.SSLContext | None) -> Attempt:
    family = socket.AF_INET6 if ":" in request.ip else socket.AF_INET
    tls, http, failed = None, None, None
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
        began = time.monotonic_ns()
        opened = _open(sock, request)
        port = int(sock.getsockname()[1]) or None
        if opened.outcome is ConnectOutcome.ESTABLISHED and context is not None and number < request.tls_attempts:
            tls, http, failed = _talk(sock, request, context, ask=number < request.http_attempts)
        elif opened.outcome is ConnectOutcome.ESTABLISHED:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)  # no TIME_WAIT: ports come back
    return Attempt(
        started_ns=began - base_ns,
        source_port=port,
        outcome=opened.outcome,
        connect_ms=opened.connect_ms,
        clock=opened.clock,
        error=opened.error or failed,
        retransmits=opened.retransmits,
        tls=tls,
        http=http,
    )


def _open(sock: socket.socket, request: ConnectRequest) -> _Opened:
    began = time.monotonic_ns()
    code = sock.connect_ex((request.ip, request.port))
    if code == errno.EINPROGRESS:
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        ready = poll.poll(request.wait_s * 1000)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if ready else errno.ETIMEDOUT
    passed_ms = (time.monotonic_ns() - began) / 1e6
    again = _retransmits(sock)
    if code == 0:
        exact_ms = handshake_rtt_ms(sock)
        clock = Clock.USER if exact_ms is None else Clock.TCP_INFO
        passed_ms = passed_ms if exact_ms is None else exact_ms
        return _Opened(
            outcome=ConnectOutcome.ESTABLISHED, connect_ms=passed_ms, clock=clock, error=None, retransmits=again
        )
    outcome = _OUTCOMES.get(code, ConnectOutcome.FAILED)
    measured = passed_ms if outcome is ConnectOutcome.REFUSED else None
    name = errno.errorcode.get(code, str(code))
    return _Opened(outcome=outcome, connect_ms=measured, clock=Clock.USER, error=name, retransmits=again)


def _retransmits(sock: socket.socket) -> int | None:
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return int(struct.unpack_from("=I", info, _RETRANS_AT)[0]) if len(info) >= _RETRANS_AT + 4 else None


def _talk(
    sock: socket.socket, request: ConnectRequest, context: ssl.SSLContext, *, ask: bool
) -> tuple[Tls | None, HttpAnswer | None, str | None]:
    """Shake hands and, where wanted, ask for `/`; return what there is, and what failed."""
    name = request.server_name or request.ip
    sock.settimeout(request.wait_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the request waits for the Finished's ACK
    tls = None
    try:
        began = time.monotonic_ns()
        with context.wrap_socket(sock, server_hostname=name) as secure:
            took_ms = (time.monotonic_ns() - began) / 1e6
            tls = Tls(
                handshake_ms=took_ms,
                version=secure.version() or "unknown",
                alpn=secure.selected_alpn_protocol(),
                trusted=context.verify_mode is ssl.CERT_REQUIRED,
            )
            return tls, (_ask(secure, name, request.headers) if ask else None), None
    except ssl.SSLError as error:
        return tls, None, error.reason or type(error).__name__
    except TimeoutError:
        return tls, None, _TIMEOUT
    except OSError as error:
        return tls, None, errno.errorcode.get(error.errno or 0, type(error).__name__)


def _ask(secure: ssl.SSLSocket, name: str, keep: Collection[str]) -> HttpAnswer | None:
    """Send `HEAD /` and read the head of the answer."""
    lines = ["HEAD / HTTP/1.1", f"Host: {name}", "User-Agent: netdiag", "Accept: */*", "Connection: close", "", ""]
    question = "\r\n".join(lines).encode("ascii")
    began = time.monotonic_ns()  # before it leaves: else a busy machine makes an answer faster than its round trip
    secure.sendall(question)
    head, wait_ms = b"", 0.0
    while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD_BYTES:
        data = secure.recv(16384)
        wait_ms = wait_ms or (time.monotonic_ns() - began) / 1e6
        if not data:
            break
        head += data
    parsed = parse_head(head, keep)
    return HttpAnswer(status=parsed[0], wait_ms=wait_ms, headers=parsed[1]) if parsed else None


def parse_head(head: bytes, keep: Collection[str]) -> tuple[int, dict[str, str]] | None:
    """Return status and the kept headers of an HTTP/1 answer; None for what is none. Values are printable ASCII."""
    status, *lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")
    parts = status.split(b" ", 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or len(parts[1]) != 3 or not parts[1].isdigit():
        return None
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode("ascii", "replace").partition(":")
        if name.lower() in keep:
            text = "".join(char if " " <= char <= "~" else "?" for char in value.strip())
            found.setdefault(name.lower(), text[:_MOST_VALUE])
    return int(parts[1]), found

# SPDX-License-Identifier: Apache-2.0
"""Real TLS sessions in memory: OpenSSL at both ends, every byte that would pass, and the key log of it."""

from __future__ import annotations

import contextlib
import functools
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Passed", "pair", "talk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What passed, in order, and the secrets."""

    flights: list[tuple[bool, bytes]]
    """From the client?, and the bytes of one flight."""
    keys: bytes
    cipher: str
    version: str


@functools.cache
def pair() -> bytes:
    """Return key and certificate for RSA: the suites without key exchange need it."""
    command = "openssl req -x509 -nodes -newkey rsa:2048 -keyout - -days 2 -subj /CN=api.example.test"
    return subprocess.run(command.split(), check=True, capture_output=True).stdout


def talk(
    said: Sequence[tuple[bool, bytes]],
    *,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ciphers: str | None = None,
    alpn: Sequence[str] = (),
    close: bool = True,
) -> Passed:
    """Shake hands, say each text (True = the client says it), and close in an orderly way."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "keys")
        client_context, server_context = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
        path = Path(folder, "pair")
        path.write_bytes(pair())
        server_context.load_cert_chain(path)
        for context in (client_context, server_context):
            context.minimum_version, context.maximum_version = version, version
            if ciphers:
                context.set_ciphers(ciphers)
            if alpn:
                context.set_alpn_protocols(list(alpn))
        client_context.keylog_filename = str(log)
        ends = _Ends(client_context, server_context)
        ends.shake()
        for client, text in said:
            ends.say(text, client=client)
        if close:
            ends.close()
        cipher = ends.client.cipher()
        assert cipher is not None
        return Passed(flights=ends.passed, keys=log.read_bytes(), cipher=cipher[0], version=ends.client.version() or "")


class _Ends:
    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext) -> None:
        self._to = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}  # by the end that reads it: True = the client
        self.client = client.wrap_bio(self._to[True], self._to[False], server_hostname="api.example.test")
        out = ssl.MemoryBIO()
        self._out = out
        self.server = server.wrap_bio(self._inbox(), out, server_side=True)
        self.passed: list[tuple[bool, bytes]] = []

    def _inbox(self) -> ssl.MemoryBIO:
        self._server_in = ssl.MemoryBIO()
        return self._server_in

    def _move(self) -> bool:
        moved = False
        for client, out, into in ((True, self._to[False], self._server_in), (False, self._out, self._to[True])):
            data = out.read()
            if data:
                self.passed.append((client, data))
                into.write(data)
                moved = True
        return moved

    def shake(self) -> None:
        done: set[ssl.SSLObject] = set()
        for _ in range(20):
            for end in (self.client, self.server):
                if end not in done:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        end.do_handshake()
                        done.add(end)
                self._move()
            if len(done) == 2:
                return
        raise AssertionError("no handshake")

    def say(self, text: bytes, *, client: bool) -> None:
        speaker, listener = (self.client, self.server) if client else (self.server, self.client)
        speaker.write(text)
        self._move()
        heard = b""
        while len(heard) < len(text):
            heard += listener.read(65536)
        self._move()
        assert heard == text

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(ssl.SSLError):
                end.unwrap()
            self._move()

# SPDX-License-Identifier: Apache-2.0
"""A name server that misbehaves as it is told: `… -m netdiag.lab.names SETTINGS.json FACTS.jsonl`. UDP and TCP.

It prints `ready` when it listens and ends on SIGTERM. One line of facts per question: name, type, transport, what
became of it. The settings are the fields of `NameSettings`, in a private network namespace always: it owns port 53.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netdiag.decode import dns
from netdiag.lab.name_settings import NameSettings

__all__ = ["NameServer", "main"]

_PORT = 53
_A, _AAAA, _CNAME = 1, 28, 5
_NOERROR, _SERVFAIL, _NXDOMAIN, _REFUSED = 0, 2, 3, 5
_CODES = {"SERVFAIL": _SERVFAIL, "NXDOMAIN": _NXDOMAIN, "REFUSED": _REFUSED}


class NameServer:
    """Answers questions; one thread for each, so that a slow answer holds up no other."""

    def __init__(self, settings: NameSettings, facts: Path) -> None:
        self._settings = settings
        self._facts = facts
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, str], int] = {}

    def serve(self) -> None:
        """Listen on all addresses and answer for ever."""
        for address in self._settings.bind:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            udp = socket.socket(family, socket.SOCK_DGRAM)
            udp.bind((address, _PORT))
            tcp = socket.create_server((address, _PORT), family=family, backlog=64)
            threading.Thread(target=self._over_udp, args=(udp,), daemon=True).start()
            threading.Thread(target=self._over_tcp, args=(tcp,), daemon=True).start()
        print("ready", flush=True)
        threading.Event().wait()

    def _over_udp(self, udp: socket.socket) -> None:
        while True:
            query, client = udp.recvfrom(4096)
            threading.Thread(target=self._answer_udp, args=(udp, client, query), daemon=True).start()

    def _answer_udp(self, udp: socket.socket, client: Any, query: bytes) -> None:
        answer = self.answer(query, "udp")
        if answer is not None:
            udp.sendto(answer, client)

    def _over_tcp(self, tcp: socket.socket) -> None:
        while True:
            stream, _ = tcp.accept()
            threading.Thread(target=self._answer_tcp, args=(stream,), daemon=True).start()

    def _answer_tcp(self, stream: socket.socket) -> None:
        with stream, stream.makefile("rb") as reader:
            while len(head := reader.read(2)) == 2:
                answer = self.answer(reader.read(int.from_bytes(head, "big")), "tcp")
                if answer is None:
                    return
                stream.sendall(struct.pack(">H", len(answer)) + answer)

    def answer(self, query: bytes, transport: str) -> bytes | None:
        """Return the answer to a question, after the wait; None where there shall be none."""
        began = time.monotonic_ns()
        message = dns.read(query)
        if message is None or message.response or len(message.questions) != 1:
            return None
        question = message.questions[0]
        with self._lock:
            turn = self._asked.get((question.name, question.qtype), 0)
            self._asked[question.name, question.qtype] = turn + 1
        lost = self._settings.lose_all or turn < self._settings.lose
        cut = self._settings.truncate and transport == "udp"
        if not lost:
            time.sleep(self._settings.wait_s + (self._settings.wait_aaaa_s if question.qtype == "AAAA" else 0.0))
        code, records = self._look_up(question.name, question.qtype, turn)
        fact = {"name": question.name, "qtype": question.qtype, "transport": transport, "began": began}
        self._note({**fact, "ended": time.monotonic_ns(), "code": None if lost else code, "cut": cut, "id": message.id})
        return None if lost else _message(query, code, [] if cut else records, cut=cut, ttl_s=self._settings.ttl_s)

    def _look_up(self, name: str, qtype: str, turn: int) -> tuple[int, list[tuple[str, int, bytes]]]:
        told = self._settings.errors.get(name)
        if told is not None:
            return _CODES[told], []
        records: list[tuple[str, int, bytes]] = []
        target = name
        while target in self._settings.aliases and len(records) < 8:
            records.append((target, _CNAME, _name(self._settings.aliases[target])))
            target = self._settings.aliases[target]
        if target not in self._settings.hosts:
            return _NXDOMAIN, records
        found = [ipaddress.ip_address(ip) for ip in self._settings.hosts[target]]
        wanted = [ip for ip in found if {4: "A", 6: "AAAA"}[ip.version] == qtype]
        if self._settings.rotate and wanted:
            wanted = wanted[turn % len(wanted) :] + wanted[: turn % len(wanted)]
        return _NOERROR, [*records, *((target, _A if ip.version == 4 else _AAAA, ip.packed) for ip in wanted)]

    def _note(self, fact: Mapping[str, Any]) -> None:
        with self._lock, self._facts.open("a") as file:
            file.write(json.dumps(fact) + "\n")


def _message(query: bytes, code: int, records: list[tuple[str, int, bytes]], *, cut: bool, ttl_s: int) -> bytes:
    flags = 0x8180 | code | (0x0200 if cut else 0)
    end = query.index(b"\0", 12) + 5
    head = query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0)
    body = b"".join(
        _name(name) + struct.pack(">HHIH", kind, 1, ttl_s, len(data)) + data for name, kind, data in records
    )
    return head + query[12:end] + body


def _name(text: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode("ascii") for label in text.split(".")) + b"\0"


def main() -> None:
    """Answer until the process is ended."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    table = json.loads(Path(sys.argv[1]).read_text())
    NameServer(NameSettings.read(table), Path(sys.argv[2])).serve()


if __name__ == "__main__":
    main()

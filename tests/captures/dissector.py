# SPDX-License-Identifier: Apache-2.0
"""What tshark says of a capture, stream by stream, as far as it is compared."""

from __future__ import annotations

import lzma
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Stream", "dissect"]

FIELDS = (
    "tcp.stream", "ip.src", "tcp.srcport", "tcp.dstport", "tcp.flags.syn", "tcp.flags.ack", "tcp.len",
    "tcp.analysis.retransmission", "tcp.analysis.out_of_order", "tls.handshake.type",
    "tls.handshake.extensions_server_name", "tls.handshake.version", "tls.handshake.extensions.supported_version",
    "tls.handshake.ciphersuite", "tls.handshake.extension.type", "tls.handshake.random",
    "http.request.method", "http.request.uri", "http.response.code", "http2.headers.method", "http2.headers.path",
    "http2.headers.status", "tls.handshake.extensions_alpn_str", "tls.handshake.session_id", "frame.time_relative",
    "tcp.flags.reset", "tcp.flags.fin", "tls.alert_message.desc", "tcp.analysis.spurious_retransmission",
    "tcp.analysis.fast_retransmission", "tcp.analysis.keep_alive",
)  # fmt: skip
RETRY = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
_SEPARATOR = "\t"


@dataclass(slots=True)
class Stream:
    """One TCP stream."""

    number: int
    client_port: int
    server_port: int
    sure: bool
    """Its SYN is there."""
    packets: int = 0
    resent: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    """Retransmissions, by who sent them: True = the client."""
    out_of_order: int = 0
    sni: str | None = None
    alpn_offered: list[str] = field(default_factory=list)
    alpn: str | None = None
    version: str | None = None
    cipher: int | None = None
    psk: bool = False
    offered: set[str] = field(default_factory=set)
    retry: bool = False
    certificate: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    session_ids: dict[bool, str] = field(default_factory=dict)
    alerts: list[int] = field(default_factory=list)


def dissect(path: Path, keys: Path | None = None) -> list[Stream]:
    """Return the TCP streams; with a key log what is inside of them. What it cannot unpack it gets unpacked."""
    with tempfile.TemporaryDirectory() as folder:
        if path.read_bytes()[:6] == b"\xfd7zXZ\0":
            plain = Path(folder, "capture")
            plain.write_bytes(lzma.decompress(path.read_bytes()))
            path = plain
        return _dissected(path, keys)


def _dissected(path: Path, keys: Path | None) -> list[Stream]:
    argv = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|"]
    argv += ["-Y", "tcp", "-2"]
    for port in (8080, 8081, 8622):
        argv += ["-d", f"tcp.port=={port},http"]
    if keys is not None and keys.exists():
        argv += ["-o", f"tls.keylog_file:{keys}"]
    for name in FIELDS:
        argv += ["-e", name]
    text = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120).stdout
    found: dict[int, Stream] = {}
    for line in text.splitlines():
        cells = dict(zip(FIELDS, (cell.split("|") if cell else [] for cell in line.split(_SEPARATOR)), strict=True))
        if cells["tcp.stream"]:
            _take(found, cells)
    return [found[number] for number in sorted(found)]


def _take(found: dict[int, Stream], cells: dict[str, list[str]]) -> None:
    number, source, destination = (int(cells[name][0]) for name in ("tcp.stream", "tcp.srcport", "tcp.dstport"))
    syn, ack = _flag(cells, "tcp.flags.syn"), _flag(cells, "tcp.flags.ack")
    stream = found.get(number)
    if stream is None:
        from_client = not ack if syn else source > destination
        ends = (source, destination) if from_client else (destination, source)
        stream = found[number] = Stream(number=number, client_port=ends[0], server_port=ends[1], sure=False)
    stream.sure |= syn and not ack
    stream.packets += 1
    client = source == stream.client_port
    if cells["tcp.analysis.retransmission"] and not cells["tcp.analysis.keep_alive"]:
        stream.resent[client] += 1
    stream.out_of_order += bool(cells["tcp.analysis.out_of_order"])
    _hellos(stream, cells)
    stream.requests += list(zip(cells["http.request.method"], cells["http.request.uri"], strict=False))
    stream.requests += list(zip(cells["http2.headers.method"], cells["http2.headers.path"], strict=False))
    stream.statuses += [int(code) for code in cells["http.response.code"] + cells["http2.headers.status"]]
    stream.alerts += [int(code) for code in cells["tls.alert_message.desc"]]


def _hellos(stream: Stream, cells: dict[str, list[str]]) -> None:
    kinds = cells["tls.handshake.type"]
    extensions = set(cells["tls.handshake.extension.type"])
    if "1" in kinds:
        if cells["tls.handshake.extensions_server_name"]:
            stream.sni = stream.sni or cells["tls.handshake.extensions_server_name"][0]
        stream.alpn_offered = stream.alpn_offered or cells["tls.handshake.extensions_alpn_str"]
        asks = ("psk", "41"), ("ticket", "35"), ("early", "42")
        stream.offered |= {name for name, number in asks if number in extensions}
        stream.session_ids.setdefault(True, (cells["tls.handshake.session_id"] or [""])[0])
    if "2" in kinds:
        if RETRY in cells["tls.handshake.random"]:
            stream.retry = True
            return
        said = cells["tls.handshake.extensions.supported_version"] or cells["tls.handshake.version"]
        stream.version = stream.version or {"0x0301": "TLSv1", "0x0302": "TLSv1.1", "0x0303": "TLSv1.2",
                                            "0x0304": "TLSv1.3"}.get(said[0] if said else "")  # fmt: skip
        suites = cells["tls.handshake.ciphersuite"]
        stream.cipher = stream.cipher or (int(suites[0], 16) if suites else None)
        stream.psk |= "41" in extensions
        stream.session_ids.setdefault(False, (cells["tls.handshake.session_id"] or [""])[0])
    stream.certificate |= "11" in kinds


def _flag(cells: dict[str, list[str]], name: str) -> bool:
    return cells[name][:1] in (["1"], ["True"])

# SPDX-License-Identifier: Apache-2.0
"""How fast a capture is read, beside tshark: a big file of mixed traffic, made of the lab's own connections.

By bytes six tenths are TLS downloads in segments of 1448 bytes, three tenths streams of tokens in TLS, a record and a
packet each, and one tenth copies of connections that real clients and servers made (tests/captures): short requests,
resumed sessions, plain HTTP; with datagrams between. Each connection has ends and times of its own, and many are under
way at the same time, as on a busy machine.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Reading", "build", "main"]

_SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "captures"
_GLOBAL = struct.Struct("<IHHiIII")
_PACKET = struct.Struct("<IIII")
_SEGMENT, _RECORD = 1448, 16_401
_START = 1_790_000_000
_TLS_FIELDS = ("tls.handshake.extensions_server_name", "tls.handshake.type", "tls.record.length", "tls.record.version")
_READ = "import sys; from pathlib import Path; from netdiag.capture.read import read; read(Path(sys.argv[1]))"
_LOOK_S = 0.03
"""So often memory is looked at."""
_FLOOD = 138_000
"""SYNs, each of another client: a file of just under 10 MB."""
_TOGETHER, _STEP_S = 200, 3.0
"""So many connections begin in so many seconds."""
_MACHINES = 24
"""Clients."""
_SHARES = {"downloads": 0.6, "streams": 0.3, "short": 0.1}
"""Of the bytes."""

Packets = list[tuple[float, bool, bytes]]
"""Seconds since the first, whether the client sent it, the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One program on one file."""

    name: str
    seconds: float
    cpu_s: float
    peak_mb: float
    """The largest sum of proportional shares (PSS) over the process and its children."""
    packets: int


def main(size: int = 1_000_000_000, keep: Path | None = None) -> list[Reading]:
    """Build a file of that size, read it with netdiag and, where it is installed, tshark; print and return figures.

    `reading` is netdiag's reader alone, without tables and analyses; `flood` is `analyze` of SYNs that nobody answers.
    """
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-") as name:
        path = keep or Path(name) / "mixed.pcap"
        with ProcessPoolExecutor(1) as other:  # what that needs is given back
            packets = _count(path) if path.exists() else other.submit(build, path, size).result()
        netdiag = [sys.executable, "-m", "netdiag", "analyze", str(path)]
        commands = {"netdiag analyze": netdiag, "netdiag, reading": [sys.executable, "-c", _READ, str(path)]}
        if tshark := shutil.which("tshark"):
            fields = [word for field in _TLS_FIELDS for word in ("-e", field)]
            commands["tshark -q -z conv,tcp"] = [tshark, "-n", "-q", "-z", "conv,tcp", "-r", str(path)]
            commands["tshark, TLS fields"] = [
                tshark,
                "-n",
                "-r",
                str(path),
                "-T",
                "fields",
                "-e",
                "tcp.stream",
                *fields,
            ]
        else:
            sys.stderr.write("tshark is not installed: nothing to compare with (apt-get install tshark)\n")
        flood = Path(name) / "flood.pcap"
        many = _flood(flood, _FLOOD)
        sys.stdout.write(f"{path.stat().st_size / 1e6:,.0f} MB, {packets:,} packets; flood: {many:,} packets\n")
        jobs = [(title, command, path, packets) for title, command in commands.items()]
        jobs.append(("netdiag analyze, flood", [*netdiag[:-1], str(flood)], flood, many))
        readings = []
        for title, command, file, number in jobs:
            one = _read(title, command, number)
            readings.append(one)
            rate, speed = one.packets / one.seconds, file.stat().st_size / 1e6 / one.seconds
            sys.stdout.write(
                f"{one.name:24} {one.seconds:7.2f} s  {rate / 1e3:7.0f} k packets/s  {speed:6.0f} MB/s  "
                f"{one.cpu_s:7.2f} s of CPU  {one.peak_mb:6.0f} MB\n"
            )
            sys.stdout.flush()
    return readings


def _read(name: str, command: list[str], packets: int) -> Reading:
    began, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        done = 0
        while not done:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            peak = max(peak, sum(map(_share, _family(process.pid))))
            time.sleep(0 if done else _LOOK_S)
        took = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return Reading(name=name, seconds=took, cpu_s=cpu, peak_mb=peak / 1e6, packets=packets)


def _family(pid: int) -> list[int]:
    """Return a process and all that came of it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in _family(int(child)))]


def _share(pid: int) -> int:
    """Return the bytes of memory that are a process's, of shared ones its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended, or is another user's
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def build(path: Path, size: int, seed: int = 1) -> int:
    """Write a capture of about `size` bytes; return the number of packets."""
    chance = random.Random(seed)
    samples = [_load(file) for file in sorted(_SAMPLES.glob("own_*.pcap"))]
    shapes = [connection for sample in samples for connection in _connections(sample)]
    hello = next(shape for shape in shapes if len(shape) > 12)
    written = packets = number = 0
    done = dict.fromkeys(_SHARES, 1)
    with path.open("wb") as file:
        file.write(_GLOBAL.pack(0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        now = 0.0
        waiting: list[tuple[float, bytes]] = []
        while written < size or waiting:
            for _ in range(_TOGETHER if written < size else 0):
                number += 1
                kind = min(_SHARES, key=lambda name: done[name] / _SHARES[name])
                if kind == "downloads":
                    shape = _download(hello, chance)
                else:
                    shape = _stream(hello, chance) if kind == "streams" else chance.choice(shapes)
                begin = now + chance.random() * _STEP_S
                frames = list(_moved(shape, number, begin))
                done[kind] += sum(len(frame) + 16 for _, frame in frames)
                waiting += frames
                if chance.random() < 0.5:
                    waiting.append((begin, _datagram(number, chance)))
            now += _STEP_S
            waiting.sort(key=_at)
            ready = bisect_left(waiting, now, key=_at) if written < size else len(waiting)
            for at, frame in waiting[:ready]:
                seconds = int(at)
                file.write(_PACKET.pack(_START + seconds, int((at - seconds) * 1e6), len(frame), len(frame)))
                file.write(frame)
                written += len(frame) + 16
            packets += ready
            del waiting[:ready]
    return packets


def _flood(path: Path, count: int) -> int:
    """Write SYNs of so many clients to one server, which answers none; return their number."""
    with path.open("wb") as file:
        file.write(_GLOBAL.pack(0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for number in range(count):
            ends = bytes((10, number >> 16, number >> 8 & 255, number & 255)) + bytes((10, 200, 0, 2))
            head = bytes(12) + b"\x08\x00\x45\x00" + struct.pack(">HHHBBH", 40, 1, 0, 64, 6, 0) + ends
            frame = head + struct.pack(">HHIIBBHHH", 40_000, 443, number, 0, 0x50, 2, 64_240, 0, 0)
            file.write(_PACKET.pack(_START + number // 1000, number % 1000 * 1000, len(frame), len(frame)))
            file.write(frame)
    return count


def _at(item: tuple[float, bytes]) -> float:
    return item[0]


def _count(path: Path) -> int:
    return sum(1 for _ in _records(path))


def _records(path: Path) -> Iterator[tuple[float, bytes]]:
    with path.open("rb") as file:
        file.read(24)
        while head := file.read(16):
            seconds, micros, length, _ = _PACKET.unpack(head)
            yield seconds + micros / 1e6, file.read(length)


def _load(path: Path) -> list[tuple[float, bytes]]:
    return list(_records(path))


def _connections(sample: list[tuple[float, bytes]]) -> Iterator[Packets]:
    """Yield the connections of a sample: all are Ethernet and IPv4 without options, opened by a SYN."""
    found: dict[bytes, Packets] = {}
    first: dict[bytes, float] = {}
    for at, frame in sample:
        source, target = frame[34:36], frame[36:38]
        flags = frame[47]
        if flags & 0x12 == 0x02:
            found[source], first[source] = [], at
        port = source if source in found else target
        if port in found:
            found[port].append((at - first[port], port == source, frame))
    yield from found.values()


def _moved(shape: Packets, number: int, begin: float) -> Iterator[tuple[float, bytes]]:
    """Yield a connection with other ends: no two have the same."""
    machine, port = number % _MACHINES, 10_000 + number // _MACHINES % 50_000
    client = bytes((10, 0, machine >> 8, machine & 255)), struct.pack(">H", port)
    server = bytes((10, 200, number % 7, 1 + number % 5))
    for after, ours, frame in shape:
        source, target = (client[0], server) if ours else (server, client[0])
        ports = client[1] + frame[36:38] if ours else frame[34:36] + client[1]
        yield begin + after, frame[:26] + source + target + ports + frame[38:]


class _Session:
    """A TLS connection that goes on behind the opening of a real one."""

    def __init__(self, hello: Packets) -> None:
        self.packets: Packets = list(hello[:12])
        self.at = self.packets[-1][0]
        self._like = {ours: frame for _, ours, frame in self.packets}
        self._next = {ours: _after(frame) for ours, frame in self._like.items()}

    def say(self, ours: bool, payload: bytes = b"", flags: int = 0x10, after: float = 0.0) -> None:  # noqa: FBT001
        """Add a segment."""
        self.at += after
        frame = _segment(self._like[ours], self._next[ours], self._next[not ours], payload, flags)
        self.packets.append((self.at, ours, frame))
        self._next[ours] = (self._next[ours] + len(payload) + (flags & 1)) & 0xFFFFFFFF

    def close(self) -> Packets:
        """End it in good order; return all packets."""
        self.say(True, flags=0x11, after=0.0005)
        self.say(False, flags=0x11, after=0.0005)
        self.say(True, after=0.0001)
        return self.packets


def _record(body: bytes) -> bytes:
    return b"\x17\x03\x03" + struct.pack(">H", len(body)) + body


def _download(hello: Packets, chance: random.Random) -> Packets:
    """Return a TLS download: records of 16 KB in segments, acknowledged by the pair."""
    session = _Session(hello)
    session.say(True, _record(chance.randbytes(220)), after=0.001)
    stream = _record(chance.randbytes(_RECORD - 5)) * chance.randint(4, 120)
    for number, place in enumerate(range(0, len(stream), _SEGMENT)):
        session.say(False, stream[place : place + _SEGMENT], after=0.00002)
        if number % 2:
            session.say(True, after=0.00001)
    return session.close()


def _stream(hello: Packets, chance: random.Random) -> Packets:
    """Return a few requests on one connection, each answered by a stream of tokens."""
    session = _Session(hello)
    for _ in range(chance.randint(1, 4)):
        session.say(True, _record(chance.randbytes(chance.randint(400, 3000) % _SEGMENT)), after=0.5)
        session.at += 0.2
        body = chance.randbytes(300)
        for _ in range(chance.randint(50, 600)):
            session.say(False, _record(body[: chance.randint(170, 280)]), after=chance.uniform(0.005, 0.03))
            session.say(True, after=0.0001)
    return session.close()


def _after(frame: bytes) -> int:
    """Return the sequence number behind a segment."""
    length = struct.unpack_from(">H", frame, 16)[0] - 20 - (frame[46] >> 4) * 4
    return int(struct.unpack_from(">I", frame, 38)[0] + length) & 0xFFFFFFFF


def _segment(like: bytes, seq: int, ack: int, payload: bytes, flags: int = 0x10) -> bytes:
    """Return a segment as that one, with other numbers and payload."""
    size = 34 + (like[46] >> 4) * 4
    length = struct.pack(">H", size - 14 + len(payload))
    numbers = struct.pack(">II", seq & 0xFFFFFFFF, ack & 0xFFFFFFFF)
    return like[:16] + length + like[18:38] + numbers + like[46:47] + bytes((flags,)) + like[48:size] + payload


def _datagram(number: int, chance: random.Random) -> bytes:
    payload = chance.randbytes(chance.randint(20, 1200))
    udp = struct.pack(">HHHH", 40_000 + number % 1000, 9999, 8 + len(payload), 0) + payload
    ends = bytes((10, 9, number >> 8 & 255, number & 255)) + bytes((10, 200, 0, 2))
    return bytes(12) + b"\x08\x00\x45\x00" + struct.pack(">HHHBBH", 20 + len(udp), 1, 0, 64, 17, 0) + ends + udp


if __name__ == "__main__":
    main(
        int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000_000,
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
    )

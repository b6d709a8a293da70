# SPDX-License-Identifier: Apache-2.0
"""Times of requests and streams against the packets of the same run, as the kernel stamped them on the loopback, and
against the stamps of a server in Go that takes them right after its system calls.

Medians are asserted always, the worst percent only where nothing else runs (NETDIAG_QUIET=1). NETDIAG_FULL=1 takes five
hundred requests and a hundred streams of two hundred chunks.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from netdiag.lab import certificate
from netdiag.recording.reader import read
from netdiag.tables import build
from tests.kernel import streams_server

pytestmark = pytest.mark.kernel

HERE = Path(__file__).resolve().parent
QUIET, FULL = (os.environ.get(name) == "1" for name in ("NETDIAG_QUIET", "NETDIAG_FULL"))
THREADS = 10
STREAMS, TOKENS = (10, 200) if FULL else (2, 60)
REQUESTS = 50 if FULL else 10
PROMPT = ["chrt", "-r", "1"] if QUIET else ["nice", "-n", "-15"]
"""What else this machine does makes neither side late."""
_TIMESTAMPNS = 35
HEAD_RECORD = len(streams_server.HEAD) + 17
"""The head of an answer as a record of TLS 1.3: its type and tag."""


class Packets:
    """What passes on a namespace's loopback to or from a port, with the kernel's own time stamps (real time, ns)."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, bool], list[tuple[int, int, bytes]]] = defaultdict(list)
        """Client's port and whether it sent → (time, sequence number, payload)."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self._socket.bind(("lo", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._over = threading.Event()

    def start(self, port: int) -> None:
        """Begin to listen."""
        self._port = port
        self._socket.settimeout(0.2)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                data, told, _, where = self._socket.recvmsg(70000, 64)
            except TimeoutError:
                continue
            if where[2] == socket.PACKET_OUTGOING or data[9] != socket.IPPROTO_TCP:  # each is seen twice
                continue
            at = (data[0] & 15) * 4
            source, target, number = struct.unpack_from("!HHI", data, at)
            payload = data[at + (data[at + 12] >> 4) * 4 : struct.unpack_from("!H", data, 2)[0]]
            if payload and self._port in (source, target):
                seconds, ns = struct.unpack("qq", told[0][2])
                sent = target == self._port
                self.seen[source if sent else target, sent].append((seconds * 10**9 + ns, number, payload))

    @functools.cache  # noqa: B019 - lives as long as the test
    def records(self, port: int, *, sent: bool) -> list[tuple[int, int]]:
        """Return when the last byte of each record of application data passed, and its length."""
        whole, ends, until = bytearray(), [], None
        for at, number, payload in self.seen[port, sent]:
            until = number if until is None else until
            if number == until:
                whole += payload
                ends.append((len(whole), at))
                until = (until + len(payload)) & 0xFFFFFFFF
        edges, times = [end for end, _ in ends], [at for _, at in ends]
        found, place = [], 0
        while place + 5 <= len(whole):
            length = whole[place + 3] << 8 | whole[place + 4]
            end = place + 5 + length
            if whole[place] == 23 and end <= len(whole):
                found.append((times[int(np.searchsorted(edges, end))], length))
            place = end
        return found


def run(folder, server_argv):
    """Return the recording and tables of the trace, and the packets; the server's stamps are in `stamps`."""
    key, cert = certificate.make(folder)
    argv = [*PROMPT, *server_argv, str(cert), str(key), "127.0.0.1", str(folder / "stamps")]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    packets = Packets()
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        packets.start(port)
        plans = [
            [[f"/streams/{thread}-{turn}/{TOKENS}/10/-1/0", -1, 0] for turn in range(STREAMS)]
            + [[f"/streams/{thread}-r{turn}/1/2/-1/0", -1, 0] for turn in range(REQUESTS)]
            for thread in range(THREADS)
        ]
        client = [*PROMPT, sys.executable, str(HERE.parent / "clients" / "reads_streams.py"), "127.0.0.1", str(port)]
        netdiag = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--no-keep", "--save", str(folder / "rec")]
        command = [*netdiag, "--format", "json", "-o", str(folder / "out.json"), "--", *client, json.dumps(plans)]
        done = subprocess.run(command, capture_output=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr.decode()[-500:]
    finally:
        server.kill()
        server.communicate()
        packets.stop()
    recording = read(folder / "rec")
    return recording, build(recording), packets


def name_of(path):
    """Return the part of a path that tells one stream from another."""
    return path.split("/")[2]


def judge(errors, median_ms, p99_ms):
    """Print how far off the times are, ms, and check the figures."""
    for name, values in errors.items():
        sys.stdout.write(f"{name} {len(values)} {np.percentile(values, [50, 99, 100]).round(4)}\n")
    for name, values in errors.items():
        assert np.median(values) < median_ms, name
        if QUIET:
            assert np.percentile(values, 99) < p99_ms, name


def test_waits_first_tokens_and_gaps_are_those_of_the_packets(tmp_path):
    recording, tables, packets = run(tmp_path, [sys.executable, str(HERE / "streams_server.py")])
    clock = recording.header["clock"]
    start = clock["realtime_ns"] - clock["monotonic_ns"] + recording.start_ns
    waits, firsts, gaps = [], [], []
    for row, (connection, wait) in enumerate(
        zip(tables.requests["connection"], tables.requests["wait_ms"], strict=True)
    ):
        mine = tables.chunks[tables.chunks["request"] == row]
        port = int(tables.connections["local_port"].iloc[connection])
        came = packets.records(port, sent=False)
        sequence = int(tables.requests["sequence"].iloc[row])
        asked = packets.records(port, sent=True)[1:]  # behind the client's Finished
        # session tickets may pass between the request and its answer
        at = next(n for n, (when, length) in enumerate(came) if when > asked[sequence - 1][0] and length == HEAD_RECORD)
        tokens = mine[mine["kind"] == "content"]["at_ns"].to_numpy()
        true = np.array([when - start for when, _ in came[at + 1 : at + 1 + len(tokens)]], np.float64)
        waits.append(abs(wait - (came[at][0] - asked[sequence - 1][0]) / 1e6))
        asked_at = asked[sequence - 1][0] - start
        firsts.append(abs(tokens[0] - tables.requests["sent_ns"].iloc[row] - (true[0] - asked_at)) / 1e6)
        gaps += (np.abs(np.diff(tokens) - np.diff(true)) / 1e6).tolist()
    assert len(waits) == THREADS * (STREAMS + REQUESTS)
    judge({"wait": waits, "first token": firsts, "gap": gaps}, 0.05, 0.3)


def test_they_are_those_of_a_server_that_stamps_its_calls(tmp_path):
    if shutil.which("go") is None:
        pytest.skip("needs go")
    program = str(tmp_path / "streams_server")
    env = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", program, HERE / "streams_server.go"], check=True, env=env)
    recording, tables, _ = run(tmp_path, [program])
    start = recording.start_ns
    # of the numbers in a path nothing is kept
    stamps = {name_of(one["path"]): one for one in map(json.loads, (tmp_path / "stamps").read_text().splitlines())}
    assert len(stamps) == len(tables.requests) == THREADS * (STREAMS + REQUESTS)
    errors = defaultdict(list)
    for row, path in enumerate(tables.requests["path"]):
        one = stamps[name_of(path)]
        mine = tables.chunks[tables.chunks["request"] == row]
        tokens = mine[mine["kind"] == "content"]["at_ns"].to_numpy()
        true = np.array(one["tokens"], np.float64) - start
        assert len(tokens) == len(true)
        asked = one["asked"] - start
        sent, wait = tables.requests["sent_ns"].iloc[row], tables.requests["wait_ms"].iloc[row]
        errors["wait"].append(abs(wait - (one["head"] - one["asked"]) / 1e6))
        errors["first token"].append(abs(tokens[0] - sent - (true[0] - asked)) / 1e6)
        errors["gap"] += (np.abs(np.diff(tokens) - np.diff(true)) / 1e6).tolist()
    judge(errors, 0.3, 3.0)

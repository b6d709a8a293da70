# SPDX-License-Identifier: Apache-2.0
"""Plaintext at the functions of TLS libraries, compared with what the server at the other end read and wrote."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from netdiag.lab import certificate
from tests.kernel.harness import serve, until
from tests.kernel.library_ends import Program
from tests.kernel.plain_clients import ASYNC, CALLED_BACK, CROSSED, GO_CLIENT, LIBRARY, MOMENT, NODE, PAIR, SYNC
from tests.kernel.plaintext import END, RECEIVE, SEND, PlainTrace, joined
from tests.kernel.test_ssl import MEMORY, in_memory, libssl

pytestmark = pytest.mark.kernel

WHOLE, MIXED = 1, 8
NONE, INSIDE, HANDSHAKE, SIZE = range(4)
OPENSSL, GNUTLS, GO = 1, 3, 4
SECRET = b"sk-planted-5d1c0ffee5d1c0ffee"


class Truth:
    """An HTTPS server, not traced, that remembers what it read and wrote on each connection, by the client's port."""

    def __init__(self, folder, *, tls=True, pause=0.0):
        self.key, self.cert = certificate.make(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if self._context:
            self._context.load_cert_chain(self.cert, self.key)
        self._listener = serve(backlog=256)
        self.port = self._listener.getsockname()[1]
        self._pause = pause
        self.read, self.wrote = defaultdict(bytes), defaultdict(bytes)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, (_, port) = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock, port), daemon=True).start()

    def _serve(self, sock, port):
        try:
            with self._context.wrap_socket(sock, server_side=True) if self._context else sock as secure:
                left = b""
                while data := secure.recv(65536):
                    self.read[port] += data
                    left += data
                    while b"\r\n\r\n" in left:
                        head, _, left = left.partition(b"\r\n\r\n")
                        words = head.split()
                        if words[:1] == [b"GET"] or words[:1] == [b"POST"]:
                            self._answer(secure, port, int(words[1].strip(b"/").split(b"?")[0] or 0))
        except OSError:
            return

    def _answer(self, secure, port, size):
        body = bytes(33 + at % 90 for at in range(size)) + b"END"
        for part in (
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body),
            body[: size // 2],
            body[size // 2 :],
        ):
            if part:
                self.wrote[port] += part
                secure.sendall(part)
                time.sleep(self._pause)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def truth(keep, tmp_path):
    return keep(Truth(tmp_path))


@pytest.fixture
def traced(cleanup, keep, tmp_path):
    """Return a function that runs a program under a trace; it returns trace and the program's number."""
    numbers = itertools.count()

    def run(*argv, program=None, **settings):
        made = keep(Program(*argv))
        tracing = cleanup.enter_context(
            PlainTrace(tmp_path / f"{next(numbers)}.ndrec", pids=[made.pid], program=program, **settings)
        )
        made.end()
        tracing.stop()
        return tracing, made.pid

    return run


@pytest.fixture(scope="module")
def go_client(tmp_path_factory):
    if shutil.which("go") is None:
        pytest.skip("needs the Go compiler")
    folder = tmp_path_factory.mktemp("go")
    (folder / "client.go").write_text(GO_CLIENT)

    def built(*flags):
        out = folder / f"client{len(flags)}"
        if not out.exists():
            env = {**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
            subprocess.run(["go", "build", *flags, "-o", out, folder / "client.go"], check=True, env=env)
        return str(out)

    return built


def ports(tracing):
    rows = tracing.tables.connections
    return dict(zip(rows["cookie"], rows["local_port"], strict=True))


def agree(tracing, pid, truth, *, library, binding=None, whole=True):
    """Compare every conversation with what the server knows of its connection."""
    port_of, seen = ports(tracing), set()
    for directions in tracing.conversations(pid).values():
        pieces = [piece for some in directions.values() for piece in some]
        (cookie,) = {piece.cookie for piece in pieces if piece.cookie}
        port = int(port_of[cookie])
        assert port not in seen, "two conversations on one connection"
        seen.add(port)
        assert_same(joined(directions[SEND]), truth.read[port], directions[SEND])
        assert_same(joined(directions[RECEIVE]), truth.wrote[port], directions[RECEIVE])
        assert {piece.library for piece in pieces} == {library}
        assert all(bool(piece.flags & WHOLE) == whole for piece in pieces)
        assert not any(piece.flags & MIXED for piece in pieces)
        if binding is not None:
            assert {piece.binding for piece in pieces} == {binding}
        assert all(0 < piece.entered <= piece.time for piece in pieces)
    assert seen == set(truth.read), "a connection without a conversation"


def assert_same(told, real, pieces):
    """Compare where bytes were copied."""
    assert len(told) == len(real)
    for piece in pieces:
        end = piece.offset + piece.length
        assert real[piece.offset : piece.offset + len(piece.data)] == piece.data
        assert real[end - len(piece.tail) : end] == piece.tail
        assert piece.length > 4096 or len(piece.data) == piece.length


def test_a_blocking_client(traced, truth):
    tracing, pid = traced(sys.executable, "-I", "-c", SYNC, truth.port, truth.cert)
    agree(tracing, pid, truth, library=OPENSSL, binding=INSIDE)
    assert len(tracing.conversations(pid)) == 2  # though the second object may lie where the first one lay
    assert sum(bool(piece.flags & END) for piece in tracing.of(pid)) == 2
    assert all(entry["lost"] == 0 for entry in tracing.frames.losses.values())


@pytest.mark.parametrize("connections", [1, 200])
def test_an_event_loop(traced, truth, connections):
    tracing, pid = traced(sys.executable, "-I", "-c", ASYNC, truth.port, truth.cert, connections, 0)
    agree(tracing, pid, truth, library=OPENSSL, binding=HANDSHAKE)
    assert len(tracing.conversations(pid)) == connections


def test_a_program_with_the_library_inside(traced, truth):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    tracing, pid = traced(node, "-e", NODE, "-", truth.port, truth.cert)
    agree(tracing, pid, truth, library=OPENSSL)


def test_calls_that_a_program_makes_when_the_library_calls_it_back(traced, truth):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    tracing, pid = traced(node, "-e", CALLED_BACK, "-", truth.port, truth.cert)
    agree(tracing, pid, truth, library=OPENSSL)
    assert len(tracing.conversations(pid)) == 4


def test_curl(traced, truth):
    urls = [f"https://localhost:{truth.port}/{size}" for size in (1, 3000, 9000)]
    tracing, pid = traced(
        "curl", "-4s", "--cacert", truth.cert, "-o", "/dev/null", "-o", "/dev/null", *urls, "-o", "/dev/null"
    )
    agree(tracing, pid, truth, library=OPENSSL, binding=INSIDE)


def test_gnutls(traced, truth):
    if shutil.which("wget") is None:
        pytest.skip("needs wget")
    url = f"https://localhost:{truth.port}/9000"
    tracing, pid = traced("wget", "-q4", f"--ca-certificate={truth.cert}", "-O", "/dev/null", url)
    agree(tracing, pid, truth, library=GNUTLS, binding=INSIDE)


@pytest.mark.parametrize("flags", [(), ("-ldflags", "-s -w"), ("-buildmode=pie", "-ldflags", "-s -w")])
def test_go(traced, truth, go_client, flags):
    client = go_client(*flags)
    tracing, pid = traced(client, truth.port, truth.cert, program=client)
    agree(tracing, pid, truth, library=GO, binding=INSIDE)
    (fact,) = tracing.recording.facts_of("tls_library")
    assert (fact["library"], fact["how"], fact["plaintext"]) == ("go", "symbols", "go")


def test_plain_and_extended_functions_count_once_and_looking_ahead_never(traced, truth):
    tracing, pid = traced(sys.executable, "-I", "-c", LIBRARY, truth.port, truth.cert, libssl(os.getpid()))
    agree(tracing, pid, truth, library=OPENSSL, binding=INSIDE)


@pytest.mark.parametrize("connections", [1, 30])
def test_older_connections_are_bound_by_what_their_thread_sends(keep, cleanup, truth, tmp_path, connections):
    running = keep(Program(sys.executable, "-I", "-c", ASYNC, truth.port, truth.cert, connections, 5))
    running.go()
    time.sleep(1.0)
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[running.pid]))
    running.end()
    tracing.stop()
    agree(tracing, running.pid, truth, library=OPENSSL, whole=False)
    talks = list(tracing.conversations(running.pid).values())
    assert len(talks) == connections
    for directions in talks:
        assert directions[SEND][0].binding == NONE
        assert {piece.binding for piece in directions[SEND][1:]} == {SIZE}


def test_what_is_sent_elsewhere_in_between_binds_nothing(keep, cleanup, truth, tmp_path):
    running = keep(Program(sys.executable, "-I", "-c", CROSSED, truth.port, truth.cert))
    running.go()
    time.sleep(1.0)
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[running.pid]))
    running.end()
    tracing.stop()
    (directions,) = tracing.conversations(running.pid).values()
    assert joined(directions[SEND]).count(b"GET /1") == 5
    bound = {int(ports(tracing)[piece.cookie]) for piece in directions[SEND] if piece.cookie}
    assert bound <= set(truth.read)


def test_children_and_programs_that_live_for_a_moment(traced, truth):
    """A busy machine may let such a program be over before it is looked at: of three runs one must be complete."""
    get = f'{sys.executable} -I -S -c "$0" {truth.port} {truth.cert}'
    for run in range(1, 4):
        tracing, pid = traced("/bin/sh", "-c", f"for i in 1 2 3 4; do {get}; done; exec {get}", MOMENT)
        sent = [piece for piece in tracing.pieces if piece.direction == SEND]
        assert len(sent) <= 5
        assert len(truth.read) == 5 * run
        if len(sent) == 5:
            break
    assert len(sent) == 5
    assert len({piece.tgid for piece in sent}) == 5
    assert sum(piece.tgid == pid for piece in sent) == 1
    assert all(ports(tracing)[piece.cookie] in truth.read for piece in sent)


def test_a_transfer_leaves_only_its_ends(traced, truth):
    size = 2_000_000
    url = f"https://localhost:{truth.port}/{size}"
    tracing, pid = traced("curl", "-4s", "--cacert", truth.cert, "-o", "/dev/null", url)
    (directions,) = tracing.conversations(pid).values()
    received = directions[RECEIVE]
    copied = sum(len(piece.data) + len(piece.tail) for piece in received)
    assert sum(piece.length for piece in received) == len(truth.wrote[next(iter(truth.wrote))])
    assert copied < size / 10
    assert received[-1].tail.endswith(b"END") or received[-1].data.endswith(b"END")


def test_many_calls_are_told_completely(cleanup, keep, tmp_path):
    """Two ends in one process pass messages to each other as fast as they can."""
    key, cert = certificate.make(tmp_path)
    count = 8000
    made = keep(Program(sys.executable, "-I", "-c", PAIR, cert, key, count, 4000))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[made.pid], slow_s=0.005))
    made.end()
    tracing.stop()
    assert all(entry["lost"] == 0 for entry in tracing.frames.losses.values())
    first, second = tracing.conversations(made.pid).values()
    for index, directions in enumerate((first, second) if first[SEND][0].data == b"message 0" else (second, first)):
        assert joined(directions[SEND]) == b"".join(b"message %d" % number for number in range(index, count, 2))
        assert joined(directions[RECEIVE]) == b"".join(b"message %d" % number for number in range(1 - index, count, 2))
        assert all(piece.cookie == 0 for piece in directions[SEND])  # there is no socket
    (cost,) = tracing.recording.facts_of("cost")
    spent = {entry["name"]: entry for entry in cost["programs"]}
    calls = spent["plain_leave"]["runs"]
    assert calls > 0
    assert (spent["plain_enter"]["ns"] + spent["plain_leave"]["ns"]) / calls < 3000


def test_a_secret_reaches_no_file(traced, truth, tmp_path):
    url = f"https://localhost:{truth.port}/10?key={SECRET.decode()}"
    header = f"Authorization: Bearer {SECRET.decode()}"
    tracing, pid = traced(
        "curl", "-4s", "--cacert", truth.cert, "-H", header, "-d", SECRET.decode(), "-o", "/dev/null", url
    )
    assert any(SECRET in piece.data for piece in tracing.of(pid))
    recorded = (tmp_path / "0.ndrec").read_bytes()
    assert SECRET not in recorded
    assert b"GET /" not in recorded
    assert not {11, 12} & {layout.stream for layout in tracing.recording.layouts.values()}


def test_a_reader_that_is_slow_holds_nobody_up_and_what_it_missed_is_counted(keep, cleanup, tmp_path):
    key, cert = certificate.make(tmp_path)
    count = 20_000
    made = keep(Program(sys.executable, "-I", "-c", PAIR, cert, key, count, 1e9))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[made.pid], slow_s=1.0))
    began = time.monotonic()
    made.end()
    tracing.stop()
    assert time.monotonic() - began < 30
    assert tracing.recording.end is not None
    seen, lost = tracing.loss("plain")
    assert lost > 0
    told = sum(1 for piece in tracing.pieces if piece.length)
    assert 2 * count <= seen + lost <= 2 * count + 2 + lost  # the ring's own losses and those never fetched
    for directions in tracing.conversations(made.pid).values():
        for pieces in directions.values():  # what is there is right, and says where something is missing
            assert all(a.offset + a.length <= b.offset for a, b in itertools.pairwise(pieces))
    assert told < 2 * count


def test_a_reader_that_is_gone_leaves_the_rest_of_the_trace(keep, cleanup, truth, tmp_path):
    made = keep(Program(sys.executable, "-I", "-c", SYNC, truth.port, truth.cert))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[made.pid]))
    tracing._reader.shutdown(socket.SHUT_RDWR)
    made.end()
    tables = tracing.stop()
    assert len(tables.connections) == 2
    seen, lost = tracing.loss("plain")
    assert lost == seen > 0


def test_a_bystander_with_the_same_library_is_not_touched(keep, cleanup, truth, tmp_path):
    bystander = keep(Program(sys.executable, "-I", "-c", MEMORY, truth.cert, truth.key))
    bystander.go()
    assert bystander.process.stdout.readline() == b"ready\n"
    client = keep(Program(sys.executable, "-I", "-c", ASYNC, truth.port, truth.cert, 1, 1))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[client.pid]))
    client.go()
    until(lambda: "libssl" in Path(f"/proc/{client.pid}/maps").read_text())
    path = libssl(bystander.pid)
    hit, original = in_memory(client.pid, path, "SSL_free")
    assert hit != original
    for function in ("SSL_free", "SSL_read", "SSL_write", "SSL_read_ex", "SSL_write_ex"):
        mine, original = in_memory(bystander.pid, path, function)
        assert mine == original
    client.end()
    tracing.stop()
    assert {piece.tgid for piece in tracing.pieces} == {client.pid}


def test_the_recorder_stays_small_with_plaintext(keep, cleanup, truth, tmp_path):
    made = keep(Program(sys.executable, "-I", "-c", ASYNC, truth.port, truth.cert, 50, 0))
    tracing = cleanup.enter_context(PlainTrace(tmp_path / "t.ndrec", pids=[made.pid]))
    made.end()
    time.sleep(0.3)
    status = Path(f"/proc/{tracing.pid}/status").read_text()
    tracing.stop()
    assert int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) < 20_480


def test_programs_without_functions_to_probe_are_named(traced):
    found = [path for path in (shutil.which("uv"), *Path(".cache").glob("*/bin/uv")) if path]
    if not found:
        pytest.skip("needs a program with rustls inside: uv")
    tracing, _ = traced(
        "/bin/sh", "-c", f"{found[0]} --version > /dev/null; sleep 1; {found[0]} --version > /dev/null; sleep 1"
    )
    facts = [fact for fact in tracing.recording.facts_of("tls_library") if fact["library"] == "rustls"]
    assert facts
    assert {fact["how"] for fact in facts} == {"wire-only"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", fact["version"]) for fact in facts)

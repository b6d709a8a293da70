# SPDX-License-Identifier: Apache-2.0
"""A real recorder for tests: start it on a target, make traffic, stop it, read the recording back.

Most tests trace themselves: the sockets are made in the test, so owner, ports, bytes and times are known to it, and
SO_COOKIE says which row of the tables is which socket.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from netdiag.ebpf.syscall import in_netns
from netdiag.recorder.link import Link, Message
from netdiag.recording.reader import Recording, read
from netdiag.tables import Tables, build
from netdiag.tracing.rendezvous import Rendezvous

__all__ = [
    "ROOT",
    "Namespace",
    "Trace",
    "abort",
    "cookie",
    "drain",
    "ended_well",
    "half",
    "in_child",
    "run",
    "serve",
    "until",
]

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "netdiag" / "recorder" / "launch.py"
_SO_COOKIE = 57
_names = itertools.count()


class Trace:
    """One trace, from armed to its end. `pids` defaults to this process; `pids=[]` is the whole machine."""

    def __init__(
        self,
        path: Path,
        *,
        wrap: Sequence[str] = (),
        probes: Sequence[str] = (),
        options: dict[str, Any] | None = None,
        extra: dict[str, int] | None = None,
        command: dict[str, Any] | None = None,
        **target: Any,
    ) -> None:
        self.path = path
        target.setdefault("pids", [os.getpid()])
        with Rendezvous() as meeting:
            program = [*wrap, sys.executable, "-I", "-S", "-B", str(LAUNCH), "--socket", meeting.path]
            self.process = subprocess.Popen(
                [*program, "--uid", str(os.geteuid())], cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            self.link: Link = meeting.accept(lambda peer: peer.uid == os.geteuid(), timeout_s=10.0)
        self.pid = self.link.peer.pid
        """Of the recorder itself, where `wrap` put something in front of it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        more = extra or {}
        start = {"do": "start", "target": target, "command": command, "probes": list(probes), "options": options or {}}
        start["with"] = list(more)
        self.link.send(start, [fd, *more.values()])
        os.close(fd)
        self.armed: Message = self._hear("armed", 60.0)
        self.recording: Recording
        self.tables: Tables

    def _hear(self, word: str, timeout_s: float) -> Message:
        message, _ = self.link.receive(timeout_s)
        if message.get("say") != word:
            self.close()
            raise AssertionError(f"the recorder said {message}")
        return message

    def stop(self) -> Tables:
        """End the trace in good order; return its tables."""
        self.link.send({"do": "stop", "reason": "test"})
        self._hear("ended", 30.0)
        self.close()
        return self.load()

    def load(self) -> Tables:
        """Read what is recorded so far."""
        self.recording = read(self.path)
        self.tables = build(self.recording)
        return self.tables

    def close(self) -> None:
        """Hang up, which ends the recorder, and reap it. What it wrote to stderr would be a fault."""
        self.link.close()
        said = self.process.communicate(timeout=20.0)[1]
        assert said in (b"", None), said.decode()

    def row(self, socket_cookie: int) -> Any:
        """Return the one row of the connections that this socket has."""
        found = self.tables.connections[self.tables.connections["cookie"] == socket_cookie]
        assert len(found) == 1, f"{len(found)} rows of {socket_cookie}"
        return found.iloc[0]

    def since_start(self, monotonic_ns: int) -> float:
        """Return an instant as the tables give it: nanoseconds since the start of the recording."""
        return float(monotonic_ns - self.recording.start_ns)

    def loss(self, stream: str) -> tuple[int, int]:
        """Return records written and lost in one stream, as the kernel counted them."""
        (loss,) = [entry for entry in self.tables.losses if entry.probe == stream]
        assert loss.lost is not None
        return loss.seen, loss.lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20.0)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


class Namespace:
    """A private network namespace with a loopback of its own; nothing that is sent in it leaves it."""

    def __init__(self) -> None:
        self.name = f"ndk-{os.getpid()}-{next(_names)}"
        self.path = f"/run/netns/{self.name}"

    def __enter__(self) -> Self:
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        run("ip", "netns", "del", self.name)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Be in it meanwhile: sockets that are made here stay in it."""
        with in_netns(self.path) as entered:
            assert entered
            yield

    def run(self, *argv: str, text: str | None = None) -> str:
        """Run a command in it; return what it printed."""
        return run("nsenter", f"--net={self.path}", "--", *argv, text=text)

    def command(self, *argv: str) -> list[str]:
        """Return the command that runs `argv` in it."""
        return ["nsenter", f"--net={self.path}", "--", *argv]

    def rules(self, *statements: str) -> None:
        """Do something to packets on arrival: nftables statements, such as `tcp dport 4242 drop`."""
        self.heal()
        chain = "type filter hook input priority 0;"
        body = "\n".join(statements)
        self.run("nft", "-f", "-", text=f"table inet ndk {{\nchain arriving {{\n{chain}\n{body}\n}}\n}}\n")

    def heal(self) -> None:
        """Let every packet pass again."""
        self.run("nft", "flush", "ruleset")

    def set(self, name: str, value: str) -> None:
        """Set a kernel variable of this namespace."""
        self.run("sysctl", "-qw", f"{name}={value}")


def run(*argv: str, text: str | None = None) -> str:
    """Run a command that must succeed; return what it printed."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def cookie(sock: socket.socket) -> int:
    """Return the kernel's own number of a socket."""
    (number,) = struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8))
    return int(number)


def abort(sock: socket.socket) -> None:
    """Close with a reset: SO_LINGER with no time."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def serve(address: str = "127.0.0.1", *, backlog: int = 64) -> socket.socket:
    """Return a listening socket on a free port of an address of this host, IPv4 or IPv6."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, 0))
    listener.listen(backlog)
    return listener


def half(listener: socket.socket, target: tuple[Any, ...] | None = None) -> tuple[socket.socket, socket.socket]:
    """Connect to a listener; return client and accepted socket."""
    client = socket.socket(listener.family, socket.SOCK_STREAM)
    client.connect(target or listener.getsockname())
    return client, listener.accept()[0]


def drain(sock: socket.socket, count: int) -> None:
    """Read so many bytes."""
    left = count
    while left:
        got = len(sock.recv(min(left, 1 << 16)))
        assert got, f"the connection ended {left} bytes early"
        left -= got


def in_child(action: Callable[[], object]) -> int:
    """Run `action` in a child of this process; return its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return child


def ended_well(children: Sequence[int]) -> None:
    """Wait for children of `in_child`."""
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def programs_of(pid: int) -> set[int]:
    """Return the ids of the kernel programs that a process holds, by link or by descriptor."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since the folder was read
            found |= set(map(int, re.findall(r"^prog_id:\s*(\d+)", path.read_text(), re.MULTILINE)))
    return found

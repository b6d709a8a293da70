# SPDX-License-Identifier: Apache-2.0
"""Secrets in a pcapng file open what they belong to, wherever in the file they stand."""

from __future__ import annotations

import functools
import io
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from netdiag import capture, tables
from netdiag.capture import container, source
from tests.fakes import packets as p
from tests.fakes.tls_session import talk

KEY_LOG = 0x544C534B
VERSIONS = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}


@functools.cache
def spoken(version: ssl.TLSVersion, server: str = "10.0.0.2") -> tuple[list[bytes], bytes]:
    """Return the packets of a connection as blocks, with others behind them, and its key log."""
    passed = talk(
        [(True, b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"), (False, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")],
        version=version,
    )
    line = p.Talk(server=(server, 443)).open()
    for client, data in passed.flights:
        line.say(client, data, after=0.001)
    other = p.Talk(server=("10.0.0.3", 80)).open()
    for _ in range(20):
        other.ask(b"GET /other HTTP/1.1\r\nHost: b\r\n\r\n", p.ANSWER)
    frames = [*line.close().packets, *other.close().packets]
    return [p.enhanced(round(at * 1e6), frame) for at, frame in frames], passed.keys


def file(blocks: Iterable[bytes]) -> bytes:
    return b"".join((p.section(), p.interface(), *blocks))


def secrets(keys: bytes) -> bytes:
    return p.block(10, struct.pack("<II", KEY_LOG, len(keys)) + keys + bytes(-len(keys) % 4))


class Pipe(io.BytesIO):
    """Cannot be set back."""

    def seekable(self) -> bool:
        return False


def paths(data: bytes, *, piped: bool = False) -> list[str | None]:
    built = tables.build(capture.read(Pipe(data) if piped else data))
    return [
        path for path, way in zip(built.requests["path"], built.requests["source"], strict=True) if way == "plaintext"
    ]


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have secrets and packets in different stretches of a file, as those of a large file are."""
    monkeypatch.setattr(container, "_CHUNK", 2048)
    monkeypatch.setattr(container, "_MAX_BLOCK", 4096)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("place", ["before", "within", "behind"])
@pytest.mark.parametrize("piped", [False, True])
def test_secrets_open_records_that_passed_before_them(version: str, place: str, *, piped: bool) -> None:
    blocks, keys = spoken(VERSIONS[version])
    at = {"before": 0, "within": 6, "behind": len(blocks)}[place]
    whole = file([*blocks[:at], secrets(keys), *blocks[at:]])
    assert "/a" in paths(whole, piped=piped)
    assert "/a" not in paths(file(blocks), piped=piped)


def test_late_secrets_are_added_to_those_that_came_in_time() -> None:
    (first, keys), (second, more) = spoken(VERSIONS["1.3"]), spoken(VERSIONS["1.2"], "10.0.0.9")
    assert paths(file([secrets(keys), *first, *second, secrets(more)])).count("/a") == 2


def test_a_file_is_read_twice_only_for_secrets_that_were_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, keys = spoken(VERSIONS["1.3"])
    monkeypatch.setattr(source.Input, "again", lambda _: pytest.fail("read again"))
    for content in (file(blocks), file([secrets(keys), *blocks]), file([secrets(keys), *blocks, secrets(keys)])):
        paths(content)


def test_of_a_pipe_too_long_to_be_kept_is_said_that_secrets_came_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MOST_KEPT", 4096)
    blocks, keys = spoken(VERSIONS["1.3"])
    recording = capture.read(Pipe(file([*blocks, secrets(keys)])))
    said = [one["what"] for fact in recording.facts if fact["kind"] == "coverage" for one in fact["unobservable"]]
    assert "what some encrypted connections said" in said
    assert "/a" not in paths(file([*blocks, secrets(keys)]), piped=True)


def unopened(tmp_path: Path, keys: bytes, *, inside: bytes = b"") -> list[str]:
    """Return what is said of a key log that was given."""
    blocks, _ = spoken(VERSIONS["1.3"])
    path = tmp_path / "keys.txt"
    path.write_bytes(keys)
    built = capture.read(file([secrets(inside), *blocks] if inside else blocks), keylog=path)
    told = [one for fact in built.facts_of("coverage") for one in fact["unobservable"]]
    return [one["why"] for one in told if one["what"] == "what encrypted connections said"]


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        (b"", "holds no secret"),
        (b"# SSL/TLS secrets log file\n", "holds no secret"),
        (b"EXPORTER_SECRET " + b"ab" * 32 + b" " + b"cd" * 32 + b"\n", "holds no secret"),
        (b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\n", "secrets of 1 session, of which none"),
    ],
)
def test_a_key_log_that_opens_nothing_is_said_to(tmp_path: Path, keys: bytes, word: str) -> None:
    [why] = unopened(tmp_path, keys)
    assert word in why
    assert "abab" not in why


def test_of_a_key_log_that_opens_something_nothing_is_said(tmp_path: Path) -> None:
    _, keys = spoken(VERSIONS["1.3"])
    assert unopened(tmp_path, keys) == unopened(tmp_path, b"", inside=keys) == []
    assert unopened(tmp_path, keys + b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\n") == []

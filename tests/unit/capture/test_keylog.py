# SPDX-License-Identifier: Apache-2.0
"""A key log gives the secrets of its sessions, shows none, and bears any line."""

from __future__ import annotations

import pytest

from netdiag.capture.keylog import KeyLog, read
from netdiag.errors import InputUnreadable
from tests.fakes.mangle import mangled

RANDOM, SECRET, MASTER = "ab" * 32, "cd" * 32, "ef" * 48
GOOD = f"""# made for a test
CLIENT_RANDOM {RANDOM} {MASTER}
CLIENT_HANDSHAKE_TRAFFIC_SECRET {RANDOM} {SECRET}
EXPORTER_SECRET {RANDOM} {SECRET}

SERVER_TRAFFIC_SECRET_0 {"00" * 32} {SECRET}
""".encode()


def test_secrets_are_found_by_the_random_number():
    log = KeyLog()
    log.add(GOOD.replace(b"\n", b"\r\n"))
    assert log.of(bytes.fromhex(RANDOM)) == {
        "CLIENT_RANDOM": bytes.fromhex(MASTER),
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET": bytes.fromhex(SECRET),
    }
    assert (len(log), log.lines, log.skipped) == (2, 3, 0)
    assert log.of(b"x" * 32) == {}


def test_the_first_word_holds():
    log = KeyLog()
    log.add(GOOD)
    log.add(GOOD.replace(b"cd", b"11"))
    assert log.of(bytes.fromhex(RANDOM))["CLIENT_HANDSHAKE_TRAFFIC_SECRET"] == bytes.fromhex(SECRET)


def test_a_secret_is_late_only_where_it_was_looked_for_before():
    log = KeyLog()
    assert log.secret(bytes.fromhex(RANDOM), "SERVER_TRAFFIC_SECRET_0") == b""
    log.add(GOOD)
    assert not log.late
    log.add(f"SERVER_TRAFFIC_SECRET_0 {RANDOM} {SECRET}".encode())
    assert log.late
    assert log.secret(bytes.fromhex(RANDOM), "SERVER_TRAFFIC_SECRET_0") == bytes.fromhex(SECRET)


def test_where_a_session_was_passed_by_every_secret_is_late():
    log = KeyLog()
    log.pass_by()
    assert not log.late
    log.add(GOOD)
    assert log.late


@pytest.mark.parametrize(
    "line",
    [
        f"CLIENT_RANDOM {RANDOM} {SECRET}",
        f"CLIENT_RANDOM {RANDOM[:-2]} {MASTER}",
        f"CLIENT_RANDOM {RANDOM} {MASTER} more",
        f"SOMETHING_ELSE {RANDOM} {SECRET}",
        f"CLIENT_TRAFFIC_SECRET_0 {RANDOM} {SECRET[:-1]}x",
        "RSA 0102 0304",
        "CLIENT_RANDOM",
        "GET / HTTP/1.1",
        "\x00\xff",
        "CLIENT_RANDOM " + "ab" * 40000,
    ],
)
def test_other_lines_are_counted_and_skipped(line):
    log = KeyLog()
    log.add(line.encode("latin-1"))
    assert (len(log), log.lines, log.skipped) == (0, 0, 1)


def test_no_secret_is_ever_shown(tmp_path):
    log = KeyLog()
    log.add(GOOD)
    assert repr(log) == "KeyLog(2 sessions)"
    path = tmp_path / "keys"
    path.write_bytes(GOOD.replace(b"CLIENT_", b"KLIENT_").replace(b"SERVER_", b"ZERVER_"))
    with pytest.raises(InputUnreadable) as caught:
        read(path)
    assert "skipped 3" in str(caught.value)
    assert SECRET[:8] not in str(caught.value)


def test_a_log_is_read_from_a_file_also_an_empty_one(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(GOOD)
    assert len(read(path)) == 2
    path.write_bytes(b"")
    assert not read(path)
    with pytest.raises(InputUnreadable, match="No such file"):
        read(tmp_path / "nothing")


@pytest.mark.fuzz
def test_any_mangled_log_is_read():
    kept = skipped = 0
    for data in mangled((GOOD,)):
        log = KeyLog()
        log.add(data)
        kept, skipped = kept + log.lines, skipped + log.skipped
        assert log.lines <= data.count(b"_") + 1
    assert kept > 0
    assert skipped > 0

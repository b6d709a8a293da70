# SPDX-License-Identifier: Apache-2.0
"""Real sessions of OpenSSL are read with their key log: every suite, any cut of the bytes, with parts missing."""

from __future__ import annotations

import random
import ssl

import pytest

from netdiag.capture.decrypt import Decryptor
from netdiag.capture.keylog import KeyLog
from tests.fakes.mangle import COUNT
from tests.fakes.tls_session import Passed, talk

REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: api.example.test\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + bytes(range(256)) * 157
SAID = [(True, REQUEST), (False, ANSWER), (True, REQUEST * 2), (False, b"HTTP/1.1 204 No Content\r\n\r\n")]
OLD = [
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "AES128-CCM",
    "AES256-CCM8",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-SHA384",
    "AES128-SHA256",
    "AES256-SHA",
]
WORST = ":@SECLEVEL=0"


def opened(passed: Passed, *, largest: int = 1 << 20, keys: bytes | None = None) -> tuple[Decryptor, dict[bool, bytes]]:
    log = KeyLog()
    log.add(passed.keys if keys is None else keys)
    decryptor, found = Decryptor(log), {True: bytearray(), False: bytearray()}
    for at, (client, data) in enumerate(passed.flights):
        for start in range(0, len(data), largest):
            for each in decryptor.feed(at, data[start : start + largest], client=client):
                assert each.client == client
                assert each.offset == len(found[client])
                found[client] += each.content
    return decryptor, {client: bytes(text) for client, text in found.items()}


def texts() -> dict[bool, bytes]:
    return {client: b"".join(text for who, text in SAID if who == client) for client in (True, False)}


@pytest.mark.parametrize("largest", [1 << 20, 1448, 7])
def test_a_session_of_tls_13_is_read(largest):
    decryptor, found = opened(talk(SAID, alpn=["http/1.1"]), largest=largest)
    assert found == texts()
    inside = decryptor.inside
    assert (inside.alpn, inside.certificates, inside.tickets, inside.closed) == ("http/1.1", 1, 2, 0)
    assert [(each["alert"], each["client"]) for each in inside.alerts] == [
        ("close_notify", True), ("close_notify", False),
    ]  # fmt: skip
    assert inside.finished == {True, False}
    assert inside.lifetimes == [7200, 7200]


@pytest.mark.parametrize("cipher", OLD)
def test_a_session_of_tls_12_is_read(cipher):
    passed = talk(SAID, version=ssl.TLSVersion.TLSv1_2, ciphers=cipher + WORST, alpn=["h2"])
    assert passed.cipher == cipher
    decryptor, found = opened(passed, largest=1000)
    assert found == texts()
    assert decryptor.inside.closed == 0
    assert len(decryptor.inside.alerts) == 2


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_sessions_of_older_versions_are_read(version):
    decryptor, found = opened(talk(SAID, version=version, ciphers="AES128-SHA" + WORST))
    assert found == texts()
    assert decryptor.inside.closed == 0


def test_keys_of_another_session_open_nothing():
    passed, other = talk(SAID), talk(SAID)
    decryptor, found = opened(passed, keys=other.keys)
    assert found == {True: b"", False: b""}
    assert decryptor.inside.opened == 0
    assert decryptor.inside.closed > 3


def test_wrong_secrets_open_nothing():
    passed = talk(SAID)
    wrong = b"\n".join(line[:-4] + b"0000" for line in passed.keys.splitlines())
    decryptor, found = opened(passed, keys=wrong)
    assert found == {True: b"", False: b""}
    assert decryptor.inside.opened == 0


@pytest.mark.parametrize("missing", ["TRAFFIC_SECRET_0", "HANDSHAKE"])
def test_a_log_that_lacks_one_kind_of_secret_opens_what_the_other_can(missing):
    passed = talk(SAID)
    keys = b"\n".join(line for line in passed.keys.splitlines() if missing.encode() not in line)
    decryptor, found = opened(passed, keys=keys)
    assert found == ({True: b"", False: b""} if missing == "TRAFFIC_SECRET_0" else texts())
    assert (decryptor.inside.certificates == 1) == (missing == "TRAFFIC_SECRET_0")


@pytest.mark.parametrize("cipher", [None, "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305", "AES128-SHA"])
def test_what_follows_missing_bytes_is_read_at_its_place(cipher):
    version = ssl.TLSVersion.TLSv1_2 if cipher else ssl.TLSVersion.TLSv1_3
    said = [(False, bytes([number]) * 1000) for number in range(1, 40)]
    passed = talk(said, version=version, ciphers=cipher and cipher + WORST)
    log = KeyLog()
    log.add(passed.keys)
    decryptor, found = Decryptor(log), []
    flights = [index for index, (client, data) in enumerate(passed.flights) if not client and len(data) > 1000]
    lost = set(flights[-30:-20])
    for at, (client, data) in enumerate(passed.flights):
        if at in lost:
            decryptor.gap(len(data), client=client)
            continue
        found += list(decryptor.feed(at, data, client=client))
    mine = [each for each in found if not each.client]
    assert sum(len(each.content) for each in mine) == 29_000
    for each in mine:
        # a block cipher fills its records up: how much of the missing bytes was text is known to a block each
        assert abs(each.offset - (each.content[0] - 1) * 1000) <= (10 * 16 if cipher == "AES128-SHA" else 0)


def test_bytes_that_are_no_records_end_the_reading_without_harm():
    passed = talk(SAID)
    log = KeyLog()
    log.add(passed.keys)
    decryptor = Decryptor(log)
    for client, data in passed.flights:
        assert all(each.content in texts()[client] for each in decryptor.feed(0, data, client=client))
        list(decryptor.feed(0, b"no record at all" * 9, client=client))


@pytest.mark.fuzz
def test_mangled_sessions_are_read_without_harm():
    sessions = [
        talk(SAID[:2] + SAID[2:], version=version, ciphers=cipher, close=True)
        for version, cipher in (
            (ssl.TLSVersion.TLSv1_3, None),
            (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-GCM-SHA256"),
            (ssl.TLSVersion.TLSv1_2, "AES128-SHA" + WORST),
        )
    ]
    draw = random.Random(5)
    whole = parts = 0
    for _ in range(max(COUNT // 20, 60)):
        passed = draw.choice(sessions)
        log = KeyLog()
        log.add(passed.keys)
        decryptor, size = Decryptor(log), 0
        for client, data in passed.flights:
            said = bytearray(data)
            for _ in range(draw.choice((0, 0, 1, 3))):
                said[draw.randrange(len(said))] = draw.randrange(256)
            if draw.random() < 0.1:
                del said[draw.randrange(len(said)) :]
                decryptor.gap(draw.randrange(1 << 20), client=client)
            for each in decryptor.feed(1, bytes(said), client=client):
                assert each.content in texts()[client]
                size += len(each.content)
        whole, parts = whole + (size == sum(map(len, texts().values()))), parts + (size > 0)
        decryptor.inside.fact(1)
    assert parts > whole > 0

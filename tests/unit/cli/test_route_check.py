# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket

import pytest

from tests.fakes.commands import call
from tests.fakes.routes import REPLAYS


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a.example", "b.example"),
        ("a.example", "-4", "-6"),
        ("a.example", "--replay", "x"),
        ("a.example", "--resolver", "nonsense"),
        ("a.example", "--vantage", "here"),
        ("a.example", "--offline", "--landmarks", "cloud"),
        ("a.example", "--offline"),
        ("a.example", "--port", "0"),
        ("nosuch.invalid-host..x",),
        ("256.1.1.1",),
        ("224.0.0.1",),
        ("203.0.113.10", "-6"),
        ("a.example", "--selftest"),
        ("a.example", "--pair", "a.json", "b.json"),
        ("--pair", "a.json", "b.json", "--format", "json"),
    ],
)
def test_wrong_words_send_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def contacted(*_args: object, **_named: object) -> None:
        raise AssertionError("something was sent")

    for name in ("connect", "connect_ex", "sendto", "sendmsg", "send"):
        monkeypatch.setattr(socket.socket, name, contacted)
    monkeypatch.setattr(socket, "getaddrinfo", contacted)
    assert call(capsys, "route-check", *words).status == 2


def test_files_that_cannot_be_read(capsys, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("{}")
    assert call(capsys, "route-check", "--replay", bad).status == 6
    assert call(capsys, "route-check", "--replay", tmp_path / "none").status == 6
    assert call(capsys, "route-check", "a.example", "--asn-db", bad).status == 6
    assert call(capsys, "route-check", "a.example", "--landmarks", tmp_path / "none").status == 6


def test_the_word_api_is_allowed(capsys):
    called = call(capsys, "route-check", "api", "--replay", REPLAYS / "nanog-mpls.json")
    assert called.status == 2
    assert "give no HOST" in called.err

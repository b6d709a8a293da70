# SPDX-License-Identifier: Apache-2.0
"""What `--verify` asks before it reads a file, and what it says where it may not."""

from __future__ import annotations

from typing import Any

import pytest

from netdiag.cli.weights_verify import verified
from netdiag.weights.judge import judge
from netdiag.weights.verify import Verified
from tests.fakes import loads
from tests.fakes.loads import GIB, KIB

PATH = "/models/m.safetensors"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    done: list[tuple[str, bool]] = []

    def measured(code: str, path: str, *, cold: bool) -> Verified:
        done.append((path, cold))
        return Verified(code=code, file=path, bytes=1, state="cold", before="a", after="b", before_ms=2, after_ms=1)

    monkeypatch.setattr("netdiag.weights.verify.verify", measured)
    return done


def slow() -> Any:
    asked = loads.requests(8192, 128 * KIB, depth=2.0)
    file = loads.file(requests=(asked,), mount=loads.mount(), forward=100, near=100, cached_after=GIB)
    return judge(loads.case(loads.thread(blocked={"fault": 8_000.0}), files=[file]))


@pytest.mark.parametrize(
    ("answers", "done"),
    [((True, True), [(PATH, True)]), ((True, False), [(PATH, False)]), ((False,), []), ((None,), [])],
)
def test_it_reads_nothing_and_drops_nothing_without_a_yes(
    runs: list[tuple[str, bool]], answers: tuple[bool | None, ...], done: list[tuple[str, bool]]
) -> None:
    left = list(answers)
    verified(slow(), "ask", None, lambda _: left.pop(0))
    assert runs == done
    assert not left


@pytest.mark.parametrize(("allowed", "cold"), [("read", False), ("cold", True)])
def test_what_was_allowed_beforehand_is_not_asked(runs: list[tuple[str, bool]], allowed: str, cold: bool) -> None:
    def never(_: str) -> bool:
        raise AssertionError("it asked")

    (row,) = verified(slow(), allowed, None, never)
    assert runs == [(PATH, cold)]
    assert row["code"] == "weights.readahead-small"


def test_where_nothing_can_be_measured_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert verified([], "read", PATH) == []
    assert "no finding" in capsys.readouterr().err

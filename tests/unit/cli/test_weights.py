# SPDX-License-Identifier: Apache-2.0
"""What `netdiag weights` refuses before it traces anything, and the document that it makes of a recording."""

from __future__ import annotations

import sys

import pytest

from netdiag.cli import weights as module
from netdiag.cli.options import Output
from netdiag.processes import Target
from netdiag.tracing.request import TraceRequest
from tests.fakes import loads
from tests.fakes.commands import call

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="traces need the Linux kernel")


@pytest.fixture(autouse=True)
def never_traces(monkeypatch):
    def refuse(*_args):
        raise AssertionError("it traced")

    monkeypatch.setattr("netdiag.tracing.trace", refuse)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "name a command or whom to trace"),
        (("--format", "json", "--", "true"), "needs -o FILE"),
        (("--duration", "0", "--", "true"), "above 0"),
        (("--duration", "nan", "--", "true"), "above 0"),
        (("--save", "none/x", "--", "true"), "no such folder"),
        (("--assert", "reuse>1", "--", "true"), "reuse"),
        (("--gpu", "maybe", "--", "true"), "maybe"),
    ],
)
def test_what_is_refused_before_anything_starts(capsys, args, words):
    called = call(capsys, "weights", *args)
    assert words in called.err
    assert (called.status, called.out) == (2, "")


def test_gpus_are_left_alone_where_nobody_wants_them(monkeypatch, tmp_path):
    assert module._gpus("off") is None
    monkeypatch.setattr(module, "_DRIVER", str(tmp_path / "none"))
    assert module._gpus("auto") is None


@pytest.mark.parametrize("rows", [None, [{"gpu": 0, "name": "A"}, {"gpu": 0, "used": 1, "free": 2, "total": 3}]])
def test_a_recording_becomes_a_document(tmp_path, rows):
    path = tmp_path / "load.netdiag"
    path.write_bytes(loads.builder().to_bytes(end="command-exited", end_at=2_000.0))
    request = TraceRequest(target=Target(), command=("python3", "load.py"))
    document = module._document(request, path, Output(), rows)
    assert tuple(document["summary"]) == module.ASSERTED
    assert [one["code"] for one in document["findings"]] == ["weights.readahead-small"]
    assert [one["name"] for one in document["gpus"]] == ([] if rows is None else ["A"])
    told = {"what": "GPU", "why": "no NVIDIA driver on this machine"}
    assert (told in document["tier"]["missing"]) is (rows is None)


def test_a_program_named_compare_can_be_traced(capsys):
    with pytest.raises(AssertionError, match="it traced"):
        call(capsys, "weights", "--", "compare")

# SPDX-License-Identifier: Apache-2.0
"""What `netdiag weights` refuses before it traces anything, and the document that it makes of a recording."""

from __future__ import annotations

import sys

import pytest

from netdiag.cli import weights as module
from netdiag.cli.options import Output
from netdiag.cli.weights_look import Looks
from netdiag.processes import Target
from netdiag.tracing.request import ExitReason, TraceRequest, TraceResult
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
        (("--until", "(", "--", "true"), "no regular expression"),
        (("--until", "up", "--pid", "1"), "of a command"),
    ],
)
def test_what_is_refused_before_anything_starts(capsys, args, words):
    called = call(capsys, "weights", *args)
    assert words in called.err
    assert (called.status, called.out) == (2, "")


def looks(monkeypatch, tmp_path, **more):
    monkeypatch.setattr("netdiag.cli.weights_look._DRIVER", str(tmp_path / "none"))
    request = TraceRequest(target=Target(), command=("python3", "load.py"))
    return Looks(request, **{"until": None, "gpu": "auto", **more})


def test_gpus_are_left_alone_where_nobody_wants_them(monkeypatch, tmp_path):
    for wanted in ("off", "auto"):
        looked = looks(monkeypatch, tmp_path, gpu=wanted)
        looked.stop()
        assert looked.gpu_rows is None


@pytest.mark.parametrize("rows", [None, [{"gpu": 0, "name": "A"}, {"gpu": 0, "used": 1, "free": 2, "total": 3}]])
def test_a_recording_becomes_a_document(monkeypatch, tmp_path, rows):
    path = tmp_path / "load.netdiag"
    path.write_bytes(loads.builder().to_bytes(end="command-exited", end_at=2_000.0))
    looked = looks(monkeypatch, tmp_path)
    looked.stop()
    looked.gpu_rows = rows
    document = module._document(looked, result(path), Output())
    assert tuple(document["summary"]) == module.ASSERTED
    assert [one["code"] for one in document["findings"]] == ["weights.readahead-small"]
    assert [one["name"] for one in document["gpus"]] == ([] if rows is None else ["A"])
    told = {"what": "GPU", "why": "no NVIDIA driver on this machine"}
    assert (told in document["tier"]["missing"]) is (rows is None)


def result(path=None, reason=ExitReason.COMMAND_EXITED):
    return TraceResult(recording=path, exit_reason=reason, command_status=0, duration_s=2.0, coverage=None)


def test_without_a_recording_the_document_is_that_of_proc(monkeypatch, tmp_path):
    looked = looks(monkeypatch, tmp_path)
    looked.stop()
    looked.rows = [
        {"kind": "thread", "pid": 7, "tid": 7, "comm": "x", "began_ns": 0, "ended_ns": 10**9, "looks": 90,
         "off": {"read": 9 * 10**8}, "run": 10**8, "ready": 0, "user": 0, "system": 10**8, "minor": 3, "major": 0,
         "rchar": 64 << 20, "syscr": 64, "read_bytes": 64 << 20},
        {"kind": "denied", "pid": 8},
    ]  # fmt: skip
    document = module._document(looked, result(), Output())
    assert document["tier"]["name"] == "procfs"
    assert document["command"]["argv"] == ["python3", "load.py"]
    assert document["load"]["waits_fault"] is None
    assert {one["what"] for one in document["tier"]["missing"]} == {"GPU", "bytes read"}


def test_a_program_named_compare_can_be_traced(capsys):
    with pytest.raises(AssertionError, match="it traced"):
        call(capsys, "weights", "--", "compare")

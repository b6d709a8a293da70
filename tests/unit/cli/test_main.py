# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from importlib import import_module

import click
import pytest

from netdiag import __version__, errors
from netdiag.cli import main
from tests.fakes import goldens
from tests.fakes.commands import call

NAMES = [name for name, _ in main.COMMANDS]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["", *NAMES])
def test_help(capsys, update_goldens, name):
    called = call(capsys, *([name] if name else []), "--help")
    assert called.status == 0
    assert max(len(line) for line in called.out.splitlines()) <= 80
    goldens.compare(f"help/{name or 'netdiag'}.txt", called.out, update=update_goldens)


@pytest.mark.parametrize(("name", "sentence"), main.COMMANDS)
def test_a_command_says_of_itself_what_the_list_says(name, sentence):
    command = import_module(f"netdiag.cli.{name.replace('-', '_')}").command
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.short_help == sentence


def test_help_of_every_command_has_an_example():
    for name in NAMES:
        command = import_module(f"netdiag.cli.{name.replace('-', '_')}").command
        assert re.search(rf"^\s*(sudo )?netdiag {name}", command.help, re.MULTILINE), name


def loaded(*args: str) -> set[str]:
    call_it = f"from netdiag.cli.main import run; run({list(args)!r})"
    code = f"import sys; {call_it}; print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name.split(".")[0] for name in ast.literal_eval(done.stderr.splitlines()[-1])}


def test_help_loads_nothing_heavy():
    assert not loaded("--help") & {"numpy", "pandas", "jinja2", "ctypes", "json"}
    assert not loaded("trace", "--help") & {"numpy", "pandas", "jinja2"}


@pytest.mark.slow
def test_help_is_fast():
    """At most three times as long as Python with click alone, whatever this machine's speed."""

    def fastest(*argv: str) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, *argv], check=True, capture_output=True)
            times.append(time.perf_counter() - began)
        return min(times)

    assert fastest("-m", "netdiag", "--help") < 3 * fastest("-c", "import click")


def test_version(capsys):
    first, *rest = call(capsys, "--version").out.splitlines()
    assert first == f"netdiag {__version__}"
    assert "CC BY 4.0" in rest[0]  # the licence of the shipped table of networks wants its sources named


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["analyse"], "no command 'analyse'; did you mean 'analyze'?"),
        (["zzz"], "no command 'zzz'"),
        (["trace", "--nonsense"], "No such option"),
        (["analyze"], "Missing argument"),
        (["trace", "--port", "99999"], "99999"),
        (["trace", "--pid", "abc"], "is no whole number from 1 to"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_words_are_status_2_and_the_last_line_says_why(capsys, args, says):
    called = call(capsys, *args)
    assert called.status == 2
    assert called.out == ""
    assert says in called.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("m", hint="h"), 2),
        (errors.NotPermitted("m", hint="h"), 4),
        (errors.Unsupported("m", hint="h"), 5),
        (errors.InputUnreadable("m", hint="h"), 6),
        (errors.NetdiagError("m", hint="h"), 1),
    ],
)
def test_errors_become_text_and_status(capsys, monkeypatch, error, status):
    def fail(*_args, **_more):
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    called = call(capsys)
    assert called.status == status
    assert called.err.splitlines() == ["netdiag: h", "netdiag: error: m"]


def test_an_error_with_a_hostile_name_is_safe(capsys):
    called = call(capsys, "analyze", "/nothing/\x1b[31m")
    assert called.status == 6
    assert "\x1b" not in called.err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_ctrl_c_is_130(capsys, monkeypatch, error):
    def interrupted(*_args, **_more):
        raise error

    monkeypatch.setattr(main.cli, "main", interrupted)
    assert call(capsys).status == 130


PRINTING = [["--help"], ["-V"], ["trace", "--help"], ["explain"], ["probes"], ["schema"], ["doctor"]]


def run_into(descriptor, *args):
    """Return exit status and stderr of a run that prints into a descriptor, which this closes."""
    call = [sys.executable, "-m", "netdiag", *args]
    try:
        done = subprocess.run(call, check=False, stdout=descriptor, stderr=subprocess.PIPE)
    finally:
        os.close(descriptor)
    return done.returncode, done.stderr


@pytest.mark.parametrize("args", PRINTING, ids=" ".join)
def test_a_reader_that_has_gone_is_141_and_no_traceback(args):
    read, write = os.pipe()
    os.close(read)
    assert run_into(write, *args) == (141, b"")


@pytest.mark.parametrize("args", PRINTING, ids=" ".join)
def test_a_full_disk_is_one_sentence_and_no_traceback(args):
    status, said = run_into(os.open("/dev/full", os.O_WRONLY), *args)
    assert status == 1
    assert re.fullmatch(rb"netdiag: error: the \w+ cannot be written: No space left on device\n", said)


def test_an_error_of_the_system_that_is_not_about_the_output_is_not_taken_for_one(monkeypatch):
    def fail(*_args, **_more):
        raise FileNotFoundError(2, "No such file or directory", "/nothing")

    monkeypatch.setattr(main.cli, "main", fail)
    with pytest.raises(FileNotFoundError):
        main.run([])


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_names_every_command_and_option(root, name):
    text = (root / "docs/reference.md").read_text()
    assert f"`netdiag {name}" in text
    command = import_module(f"netdiag.cli.{name.replace('-', '_')}").command
    shared = {"trace", "analyze", "report"}
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    assert [option for option in options if name in shared and option not in text] == []


def test_without_a_command_the_help_is_shown_and_the_call_was_wrong(capsys):
    called = call(capsys)
    assert called.status == 2
    assert called.out == ""
    assert "Commands:" in called.err

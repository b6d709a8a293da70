# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Subject
from netdiag.render import Options, render
from netdiag.render.table import subject
from netdiag.tables.model import Loss
from netdiag.text import cells
from tests.fakes import documents, goldens


def table(document=None, **options):
    return render("table", document or documents.document(), Options(**options))


def seen(connections, requests=(), findings=(), recording=None, **changes):
    return documents.build(
        recording or documents.recording(), documents.tables(connections, requests, **changes), findings
    )


@pytest.mark.golden
def test_the_whole_table(update_goldens):
    goldens.compare("table.txt", table(recording="last"), update=update_goldens)


@pytest.mark.golden
def test_the_whole_table_in_colour(update_goldens):
    goldens.compare("table-color.txt", table(color=True, verbose=True), update=update_goldens)


def test_no_line_is_wider_than_the_terminal():
    long = "a very long name " * 20
    rows = [documents.connection(1, remote_name="x" * 300, comm="y" * 90)]
    finding = documents.finding(title=long, what_if=long, subject=Subject(exe="/" + "z" * 200, host="h" * 200))
    recording = documents.recording(header={**documents.recording().header, "command": {"argv": ["w" * 300]}}, facts=[])
    for document in (documents.document(), seen(rows, findings=[finding], recording=recording)):
        assert max(cells(line) for line in table(document).splitlines()) <= 80


@pytest.mark.parametrize("name", ["app.py", "/home/somebody/work/service/app.py", "a" * 90])
@pytest.mark.parametrize("more", [[], ["{…}"] * 3, ["{…}"] * 90])
def test_the_first_line_tells_program_and_script_by_whole_words(name, more):
    header = {**documents.recording().header, "command": {"argv": ["/usr/bin/python", name, *more]}}
    document = seen([documents.connection(1)], recording=documents.recording(header=header, facts=[]))
    told = table(document).split("\n")[0].removeprefix("netdiag: ")
    assert told.startswith(f"python {name}"[:62])
    assert "{…," not in told


@pytest.mark.parametrize("time_ms", [1.0, 59_999.0, 857_000.0, 99_999_999.0])
def test_the_head_of_the_times_is_never_cut(time_ms):
    document = documents.document()
    document = {**document, "summary": {**document["summary"], "time_ms": time_ms}}
    (head,) = [line for line in table(document).splitlines() if line.startswith("where ")]
    assert " went " in head
    assert "…" not in head


def test_colour_is_only_there_when_asked_for():
    assert "\x1b" not in table()
    assert "\x1b[1;33m" in table(color=True)


def test_findings_of_severity_info_are_notes_unless_verbose():
    assert "note     tcp.far-server" in table()
    assert "INFO  The server is far" in table(verbose=True)


def test_a_healthy_run_says_so():
    text = table(seen([documents.connection(1)], [documents.request(1, 0)]))
    assert "OK       Nothing to change was found." in text
    assert "WARNING" not in text


def test_nothing_seen_is_not_the_same_as_healthy():
    text = table(seen([]))
    assert "No TCP connection was seen" in text
    assert "OK" not in text


def test_losses_are_loud():
    text = table(seen([documents.connection(1)], losses=(Loss(probe="tcp", seen=10, lost=5),)))
    assert "5 events lost" in text
    assert "lost     5 of 15 events of probe tcp" in text


def test_losses_that_nobody_counted_are_not_zero():
    assert "losses unknown" in table(seen([documents.connection(1)], losses=(Loss(probe="tcp", seen=1, lost=None),)))


@pytest.mark.parametrize(("status", "says"), [(0, "exit 0"), (3, "exit 3"), (137, "signal 9")])
def test_how_the_command_ended(status, says):
    recording = documents.recording(facts=[{"kind": "command", "argv": ["x"], "exit_status": status}])
    assert says in table(seen([], recording=recording)).splitlines()[0]


def test_requests_that_could_not_be_read_are_told():
    rows = [documents.connection(1, encrypted=True, requests=float("nan"))]
    text = table(seen(rows))
    assert "1 connection encrypted, requests not read" in text
    assert "  198.51.100.7:8080                           –      1" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "refused"},
        {"bytes_sent": 0, "bytes_received": 0},
        {"requests": 0},
        {"encrypted": False},
    ],
)
def test_a_connection_without_calls_is_not_one_whose_calls_were_not_read(changes):
    row = documents.connection(1, **{"encrypted": True, "requests": float("nan"), **changes})
    assert "not read" not in table(seen([row]))


def test_coverage_counts_the_calls_that_the_headline_counts():
    both = [documents.connection(1), documents.connection(2, role="server")]
    text = table(seen(both, [documents.request(1, 0), documents.request(2, 1)]))
    assert ", 1 request to 1 host" in text or "· 1 request to 1 host" in text
    assert "1/1 requests from sends and receives" in text


def test_a_probe_that_is_not_attached_says_why():
    assert "process is partial: no tracepoint for forks; a newer kernel" in table()


def test_a_recording_that_breaks_off_is_told():
    text = table(seen([], recording=documents.recording(end=None, truncated_at=99)))
    assert "breaks off at byte 99" in text


def test_ignored_findings_are_listed_with_their_reason():
    entry = {"code": "a.b", "cause": None, "severity": "warning", "reason": "known", "expires": "2027-01-31"}
    assert "ignored  a.b until 2027-01-31: known" in table(documents.document(ignored=[entry]))


def test_many_hosts_end_with_a_number():
    rows = [documents.connection(number, remote_port=1000 + number) for number in range(1, 21)]
    assert "and 14 more" in table(seen(rows))


def test_next_steps_name_the_recording_where_it_is_kept():
    assert "netdiag report last -o report.html" in table(recording="last")
    assert "netdiag report" not in table()


def test_the_subject_of_a_finding():
    about = {"pid": 1, "exe": "/usr/bin/curl", "remote": "192.0.2.1:443", "host": "api.example"}
    assert subject({"subject": about}) == "pid 1 curl → api.example"
    assert subject({"subject": dict.fromkeys(about)}) == ""


def test_a_long_title_is_wrapped_not_cut():
    title = "The server ends the connection after every answer: new ones cost 6.9 of 40.2 s (17 %)"
    lines = table(seen([documents.connection(1)], findings=[documents.finding(title=title)])).splitlines()
    assert lines[1] == "WARNING  The server ends the connection after every answer: new ones cost 6.9 of"
    assert lines[2] == "         40.2 s (17 %)"

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.render import Options
from netdiag.render.route_table import headline, loss, ms, render
from netdiag.route import document
from netdiag.route.knowledge import DatabasePlace, IpFacts, Knowledge
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import IP, boomerang, connect, measured, trace


def made(measurement, **inputs):
    return document.build(examine(measurement, Knowledge(), Inputs(**inputs)))


def test_the_verdict_comes_first():
    lines = render(made(boomerang(), baseline_ms=12.0), Options()).splitlines()
    assert lines[0].startswith("DETOUR SUSPECTED  Berlin → New York → Frankfurt: +76.1 ms a round trip")
    assert lines[1].lstrip().startswith("means")
    text = "\n".join(lines)
    for part in ("88.1 ms is 7.3 × the baseline 12.0 ms", "3 of 5 checks", "silent, not loss", "cf-ray …-FRA",
                 "rDNS newyork", "lost 0/12 (95 %: <22 %)", "asked    nobody"):  # fmt: skip
        assert part in text


def test_other_verdicts():
    fine = made(measured(traces=[trace([(IP, 12.0)])], connects=[connect([12.0] * 12, pop="FRA")]), baseline_ms=12.0)
    assert headline(fine)[::2] == ("NO DETOUR", "good")
    assert headline(made(measured()))[0] == "UNKNOWN"
    assert "lacks" in render(made(measured()), Options())


def test_colour_is_a_choice():
    document_ = made(boomerang(), baseline_ms=12.0)
    assert "\x1b[1;33m" in render(document_, Options(color=True))
    assert "\x1b" not in render(document_, Options())


def test_losses_with_their_bound():
    assert loss({"lost": 0, "sent": 0, "low": None, "high": None}) == ""
    assert loss({"lost": 0, "sent": 30, "low": 0.0, "high": 0.095}) == "lost 0/30 (95 %: <9.5 %)"
    assert loss({"lost": 5, "sent": 20, "low": 0.12, "high": 0.4}) == "lost 5/20 (95 %: >12 %)"


def test_unknown_times_are_a_dash():
    assert ms(None) == "–"
    assert ms(12.04) == "12.0"


def test_an_unreached_target_is_said():
    text = render(made(measured(traces=[trace([("198.18.0.1", 3.0), None], reached=False)])), Options())
    assert "the target did not answer (silent)" in text


def test_what_changed_nothing_is_counted() -> None:
    shown = made(boomerang(), baseline_ms=12.0)
    assert "ignored" not in render(shown, Options())
    shown["paths"][0]["ignored"].update(duplicates=2, mismatched=3, malformed=1, foreign=900)
    assert "ignored  2 answered again, 3 quoting what was never sent, 1 damaged\n" in render(shown, Options())


def test_a_note_of_every_path_is_printed_once() -> None:
    shown = made(boomerang(), baseline_ms=12.0)
    shown["paths"][0]["notes"] = ["raw sockets need root"]
    shown["paths"].append({**shown["paths"][0], "ip": "2001:db8::10", "notes": ["raw sockets need root", "its own"]})
    text = render(shown, Options())
    assert text.count("raw sockets need root") == 1
    assert text.count("its own") == 1


def test_a_suspected_detour_comes_with_its_map() -> None:
    assert "a Berlin" in render(made(boomerang(), baseline_ms=12.0), Options())
    near = made(boomerang(), baseline_ms=80.0)
    assert "a Berlin" not in render(near, Options())
    assert "a Berlin" in render(near, Options(verbose=True))


def test_whose_flows_a_stored_trace_has() -> None:
    shown = made(boomerang(), baseline_ms=12.0)
    shown["paths"][0].update(flow="multi", method="imported")
    assert "as without root" not in render(shown, Options())


def test_a_long_heading_is_cut_nowhere() -> None:
    long = "2001:db8:cb00:7100:1234:5678:9abc:def0"
    shown = made(boomerang(), baseline_ms=12.0)
    shown["addresses"][0]["tls_ms"] = {"min": 168.8, "median": 170.0, "n": 12}
    for part in ("addresses", "paths", "pops"):
        shown[part][0]["ip"] = long
    shown["paths"][0]["method"] = "in-session"
    lines = render(shown, Options(width=80)).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("target"))
    assert lines[at].endswith(f"[{long}]:443")
    assert lines[at + 1].strip() == "TCP inside an open connection  min 88.1, median 88.7 ms, TLS 168.8 ms"
    assert lines[at + 2].strip() == "lost 0/12 (95 %: <22 %)"
    assert all(len(line) <= 80 for line in lines)


def test_a_place_that_counts_for_no_verdict_is_marked_and_lacking() -> None:
    databases = (DatabasePlace(database="mine", city="Frankfurt", country="DE", latitude=50.1, longitude=8.7),)
    knowledge = Knowledge(ips={IP: IpFacts(databases=databases)})
    for pop in (None, "FRA"):
        measurement = measured(traces=[trace([(IP, 60.0)])], connects=[connect([60.0] * 12, pop=pop)])
        told = document.build(examine(measurement, knowledge, Inputs(baseline_ms=12.0)))
        text = render(told, Options())
        assert told["addresses"][0]["pop"] == "FRA"
        assert (" FRA? " in text) is (pop is None)
        assert ("perhaps Frankfurt" in " ".join(text.split())) is (pop is None)
        assert "where the target answered from: no header" not in text

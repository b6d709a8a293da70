# SPDX-License-Identifier: Apache-2.0
"""What `netdiag route-check` does with its options: measure or read, examine, keep, write, gate."""

from __future__ import annotations

import ipaddress
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from netdiag import config
from netdiag.cli.options import Output, wants_color
from netdiag.cli.results import FAILED, check_assertions, gate, say, write_text
from netdiag.cli.route_words import position
from netdiag.errors import InputUnreadable, NotPermitted, UsageError
from netdiag.render import Options, route
from netdiag.render import route_pair as side_by_side
from netdiag.route import document, exports, history, landmarks
from netdiag.route import replay as replays
from netdiag.route.check import Plan, check
from netdiag.route.claims import claims
from netdiag.route.data import Tables, stale
from netdiag.route.engine.live import LiveProber, raw_allowed
from netdiag.route.knowledge import Knowledge, Source
from netdiag.route.model import Asked, Measurement, Protocol
from netdiag.route.names import Names
from netdiag.route.persistence import Check
from netdiag.route.pops import State
from netdiag.route.survey import Inputs, Survey, examine
from netdiag.route.watching import changes

__all__ = ["ASSERTED", "once", "pair", "replay", "selftest", "watch"]


ASSERTED = ("addresses", "rtt_ms", "median_ms", "lost", "extra_ms", "hops")
"""What `--assert` can name: the document's `summary`."""


def once(host: str, port: int, given: Mapping[str, Any], output: Output, stream: TextIO) -> int:
    """Check once, print, keep."""
    check_assertions(output, ASSERTED)
    tables = _tables(given)
    measurement = _measure(host, port, given)
    kept = None if given["no_keep"] else history.open_store()
    earlier = kept.earlier(measurement.target) if kept else ()
    survey = _judged(measurement, tables.knowledge(measurement), _inputs(given, Inputs()), earlier)
    made = _document(survey, output)
    name = None
    if kept is not None:
        name = kept.keep(measurement.target, made)
        kept.close()
    return _tell(made, given, output, stream, name)


def replay(given: Mapping[str, Any], output: Output, stream: TextIO) -> int:
    """Judge stored probes: with the knowledge that was stored, unless the user names tables."""
    stored = replays.read(_read(given["replay"]))
    own_tables = given["asn_db"] or given["geo_dbs"]
    measurement = stored.measurement
    latitude, longitude = position(given["vantage"])
    if latitude is not None:
        vantage = replace(measurement.vantage, latitude=latitude, longitude=longitude, source="given")
        measurement = replace(measurement, vantage=vantage)
    knowledge = stored.knowledge if stored.knowledge is not None and not own_tables else None
    if knowledge is None:
        knowledge = _tables(given).knowledge(measurement)
    made = _examined(measurement, knowledge, _inputs(given, stored.inputs), output)
    return _tell(made, given, output, stream, given["replay"])


def watch(host: str, port: int, given: Mapping[str, Any], output: Output, stream: TextIO) -> int:
    """Check again and again, print the first and every change; Ctrl-C prints the last in full."""
    check_assertions(output, ASSERTED)
    tables = _tables(given)
    kept = None if given["no_keep"] else history.open_store()
    before: dict[str, Any] | None = None
    earlier = kept.earlier(history.target_of(host, port, given["protocol"])) if kept else ()
    states: Mapping[str, State] = {}
    try:
        while True:
            began = time.monotonic()
            measurement = _measure(host, port, given)
            inputs = _inputs(given, Inputs(states=states))
            survey = _judged(measurement, tables.knowledge(measurement), inputs, earlier)
            made = _document(survey, output)
            if kept is not None:
                kept.keep(measurement.target, made)
            for line in changes(before, made):
                say(line)
            _write_choice(made, given)
            before = made
            earlier, states = (*earlier, history.check_of(made)), survey.states
            time.sleep(max(0.0, float(given["every"]) - (time.monotonic() - began)))
    except KeyboardInterrupt:
        if before is None:
            raise
        return _tell(before, given, output, stream, None)
    finally:
        if kept is not None:
            kept.close()


def pair(files: Sequence[str], output: Output, stream: TextIO) -> int:
    """Print two stored checks side by side."""
    documents = []
    for name in files:
        stored = replays.read(_read(name))
        knowledge = stored.knowledge or Tables().knowledge(stored.measurement)
        documents.append((name, _examined(stored.measurement, knowledge, stored.inputs, output)))
    color = wants_color(output.color, stream)
    write_text(side_by_side.render(documents, Options(color=color)), output.file, stream)
    return 0


def selftest(stream: TextIO) -> int:
    """Measure an emulated network of this machine, as root and as an ordinary user, and print what was right."""
    from netdiag.route.lab.proof import prove  # the emulator: 20 ms that no other check needs

    proof = prove()
    lines = [f"{'ok   ' if check.right else 'WRONG'} {check.what}: {check.note}" for check in proof.checks]
    right = sum(check.right for check in proof.checks)
    lines.append(f"{right} of {len(proof.checks)} right on the network '{proof.topology}'")
    write_text("\n".join(lines) + "\n", None, stream)
    return 0 if proof.right else FAILED


def _tables(given: Mapping[str, Any]) -> Tables:
    return Tables(given["asn_db"], given["geo_dbs"])


def _measure(host: str, port: int, given: Mapping[str, Any]) -> Measurement:
    latitude, longitude = position(given["vantage"])
    load = _asked_for_load(given["load"])
    base_ns = time.monotonic_ns()
    names = Names(base_ns)
    families = (4,) if given["only_4"] else (6,) if given["only_6"] else (4, 6)
    marks = landmarks.nearest(landmarks.chosen(given["landmarks"]), latitude, longitude)
    if given["offline"] and marks:
        raise UsageError("--offline sends to the target alone: leave --landmarks")
    marks = landmarks.resolved(marks, lambda name: names.addresses(name, families))
    plan = Plan(
        host=host,
        port=port,
        protocol=Protocol(given["protocol"]),
        families=families,
        rounds=given["rounds"],
        flows=given["flows"],
        names=not given["no_names"],
        resolvers=_resolvers(given),
        offline=given["offline"],
        http=not given["no_http"],
        origins=given["cymru"],
        latitude=latitude,
        longitude=longitude,
        marks=marks,
        inside=given["inside"],
        odd=given["odd"],
        proxy=_proxy(host),
    )
    if given["inside"] and (given["offline"] or given["no_http"] or given["protocol"] != "tcp"):
        raise UsageError("--inside opens a TLS connection and asks once: leave --offline, --no-http, --protocol")
    if given["inside"] and not raw_allowed():
        raise NotPermitted("--inside sends raw packets: it needs root or CAP_NET_RAW", hint="start it with sudo")
    if given["odd"]:
        from netdiag.route import odd

        odd.ready()
    progress = say if sys.stderr.isatty() else _quiet
    measurement = check(plan, LiveProber(base_ns), names, base_ns, say=progress)
    return replace(measurement, asked=(*measurement.asked, *load))


def _asked_for_load(source: str | None) -> tuple[Asked, ...]:
    """Return whom `--load` contacts: the host of a URL that the user gave."""
    if source is None or not source.startswith(("http://", "https://")):
        return ()
    from netdiag import web  # 20 ms

    try:
        parts = web.parts_of(source)
    except ValueError as error:
        raise UsageError(f"--load: {error}") from error
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (Asked(purpose="load", address=str(parts.hostname), port=port),)


def _proxy(host: str) -> str | None:
    """Return host and port of the proxy that this environment names for HTTPS, without its password; None: no proxy."""
    if not any(name.lower() in ("https_proxy", "all_proxy") and value for name, value in os.environ.items()):
        return None
    import urllib.request  # 20 ms

    proxies = urllib.request.getproxies()
    proxy = proxies.get("https") or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return proxy.rpartition("@")[2].rpartition("//")[2].partition("/")[0] or "of HTTPS_PROXY"


def _quiet(_text: str) -> None:
    return


def _resolvers(given: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    for text in given["resolvers"]:
        try:
            found.append(str(ipaddress.ip_address(text.strip("[]"))))
        except ValueError:
            raise UsageError(f"--resolver {text}: give an IP address") from None
    if found and given["offline"]:
        raise UsageError("--offline asks no name server: leave --resolver")
    return tuple(found)


def _inputs(given: Mapping[str, Any], stored: Inputs) -> Inputs:
    """Return what was stored, with what the user says now on top."""
    said = dict(stored.loads)
    if given["load"]:
        from netdiag.route import loads  # with it all of urllib

        said = loads.read(given["load"])
    return replace(
        stored,
        baseline_ms=given["baseline_ms"] if given["baseline_ms"] is not None else stored.baseline_ms,
        loads=said,
        by_load=given["score"] == "load" or stored.by_load,
    )


def _examined(measurement: Measurement, knowledge: Knowledge, inputs: Inputs, output: Output) -> dict[str, Any]:
    return _document(examine(measurement, knowledge, inputs), output)


def _judged(measurement: Measurement, knowledge: Knowledge, inputs: Inputs, earlier: Sequence[Check]) -> Survey:
    """Return the survey with those earlier checks that were made from the same network and region."""
    alone = examine(measurement, knowledge, inputs)
    place = history.place_of(document.build(alone))
    same = tuple(check for check in earlier if check.place == place)
    return examine(measurement, knowledge, replace(inputs, earlier=same)) if same else alone


def _document(survey: Survey, output: Output) -> dict[str, Any]:
    today = datetime.now(UTC).date()
    reported, ignored = config.split(claims(survey), config.load(output.config), today)
    return document.build(survey, reported, ignored)


def _tell(made: dict[str, Any], given: Mapping[str, Any], output: Output, stream: TextIO, name: str | None) -> int:
    for warning in stale(_sources(made), datetime.now(UTC).date()):
        say(warning)
    _write_choice(made, given)
    target = output.file
    html = target is not None and target.suffix in (".html", ".htm") and output.format == "table"
    color = output.color == "always" if target is not None else wants_color(output.color, stream)
    options = Options(color=color, verbose=output.verbose > 0, rows="hops", recording=name)
    write_text(route.render("html" if html else output.format, made, options), target, stream, output.reserved)
    return gate(made, output)


def _sources(made: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(Source(source=row["source"], date=row["date"], licence=row["licence"]) for row in made["data"])


def _write_choice(made: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    path: Path | None = given["write_to"]
    if path is not None:
        write_text(exports.render(made, given["write_format"] or exports.kind_of(path)), path, None)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InputUnreadable(f"{name}: {error.strerror}") from error

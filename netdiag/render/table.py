# SPDX-License-Identifier: Apache-2.0
"""What a person reads in a terminal: the verdict first, then the proof, the fix, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netdiag.render import Options, words
from netdiag.render.layout import Paper, whole_words, wrap
from netdiag.text import cells, fit, safe
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = ["render", "render_finding", "subject"]

_MAX_HOSTS = 6
_MAX_NOTES = 6
_MAX_ADVICE = 2
_LEAST_SHARE = 0.0005
"""A part of the time that would be printed as 0.0 % is left out."""


def render(document: Mapping[str, Any], options: Options) -> str:
    """Return the report of at most `options.width` columns; only snippets of code may be wider."""
    paper = Paper(width=options.width, color=options.color)
    _headline(paper, document)
    loud = [row for row in document["findings"] if options.verbose or row["severity"] != "info"]
    quiet = [row for row in document["findings"] if row not in loud]
    for finding in loud:
        render_finding(paper, finding, verbose=options.verbose)
    if not loud:
        _nothing_found(paper, document)
    _time(paper, document)
    _hosts(paper, document, partial=options.partial)
    _notes(paper, document, quiet)
    _coverage(paper, document, partial=options.partial)
    _next(paper, document, options.recording)
    return paper.text()


# --- headline -----------------------------------------------------------------------------------------------------


def _headline(paper: Paper, document: Mapping[str, Any]) -> None:
    ran = f"{words.lasted(document)}{_exit(document)}"
    tail = " · ".join((ran, _counts(document), _lost(document)))
    what = words.command(document)
    room = paper.width - len("netdiag: , ") - cells(tail)
    short = whole_words(what, room) if room >= _SHORTEST_NAME else what
    if cells(short) <= room and (
        short == what or (short.endswith(" …") and short.count(" ") > 1)
    ):  # `python …` alone would say nothing
        paper.line(f"netdiag: {short}, {tail}", "bold")
        return
    paper.line(f"netdiag: {whole_words(what, paper.width - len('netdiag: '))}", "bold")
    paper.line(f"         {tail}", "bold")


_SHORTEST_NAME = 16
"""A command cut shorter than this says nothing: then it gets its own line."""


def _exit(document: Mapping[str, Any]) -> str:
    status = (document["command"] or {}).get("exit_status")
    if status is None:
        return ""
    return f", signal {status - 128}" if status > 128 else f", exit {status}"


def _counts(document: Mapping[str, Any]) -> str:
    summary = document["summary"]
    hosts = len(summary["by_host"])
    if summary["requests"]:
        return f"{words.plural(summary['requests'], 'request')} to {words.plural(hosts, 'host')}"
    return words.plural(summary["connections"], "connection")


def _lost(document: Mapping[str, Any]) -> str:
    known = [row["lost"] for row in document["coverage"]["events"] if row["lost"] is not None]
    if not known:
        return "losses unknown"
    return f"{words.plural(sum(known), 'event')} lost"


def _nothing_found(paper: Paper, document: Mapping[str, Any]) -> None:
    if not document["connections"]:
        paper.labelled("nothing", "No TCP connection was seen, so there is nothing to judge.", style="info")
        return
    known = "" if words.breaks_off(document) is None else " in the part that was recorded"
    paper.labelled("OK", f"Nothing to change was found{known}.", style="good")


# --- findings -----------------------------------------------------------------------------------------------------


def render_finding(paper: Paper, finding: Mapping[str, Any], *, verbose: bool) -> None:
    """Add one finding: what it is, its proof, the setting to change and what that brings."""
    severity = str(finding["severity"])
    head = f"{severity.upper()}  "
    for row, text in enumerate(wrap(safe(finding["title"]), paper.width - len(head))):
        paper.line(f"{' ' * len(head) if row else head}{text}", severity)
    paper.listed("what", _what(finding), indent=2)
    for row, proof in enumerate(_proofs(finding, verbose=verbose)):
        paper.labelled("" if row else "proof", proof, indent=2)
    for row, advice in enumerate(finding["advice"][:_MAX_ADVICE]):
        _advice(paper, "or" if row else "fix", advice)
    if finding["what_if"]:
        paper.labelled("then", safe(finding["what_if"]), indent=2)


def subject(finding: Mapping[str, Any]) -> str:
    """Return whom the finding is about: `pid 4711 → api.openai.com`."""
    about = finding["subject"]
    program = " ".join(
        part for part in (f"pid {about['pid']}" if about["pid"] is not None else "", _base(about["exe"])) if part
    )
    there = safe(about["host"] or about["remote"] or "")
    return " → ".join(part for part in (program, there) if part)


def _base(exe: str | None) -> str:
    return safe(exe.rsplit("/", 1)[-1]) if exe else ""


def _what(finding: Mapping[str, Any]) -> list[str]:
    code = finding["code"] if finding["cause"] is None else f"{finding['code']} ({finding['cause']})"
    parts = [safe(code), f"confidence {finding['confidence']:.2f}", subject(finding)]
    return [part for part in parts if part]


def _proofs(finding: Mapping[str, Any], *, verbose: bool) -> list[str]:
    """Return the notes to print: what proves it, then one example, or with `verbose` all of them."""
    notes = [(row["id"], safe(row["note"])) for row in finding["evidence"] if row["note"]]
    proofs = [note for id_, note in notes if id_ is None]
    examples = [f"{id_}: {note}" for id_, note in notes if id_ is not None]
    if verbose:
        return [*proofs[:1], *examples, *proofs[1:]]
    return [*proofs[:1], *(f"for example {example}" for example in examples[:1])] or [_share(finding)]


def _share(finding: Mapping[str, Any]) -> str:
    return f"{finding['count']:,} of {finding['of']:,}"


def _advice(paper: Paper, label: str, advice: Mapping[str, Any]) -> None:
    text = safe(advice["text"])
    if advice["applies_to"] and not text.startswith(safe(advice["applies_to"])):
        text = f"{safe(advice['applies_to'])}: {text}"
    if advice["setting"] and safe(advice["setting"]) not in text + (advice["snippet"] or ""):
        value = f" = {safe(advice['value'])}" if advice["value"] else ""
        text = f"{text} ({safe(advice['setting'])}{value})"
    paper.labelled(label, text, indent=2)
    if advice["snippet"]:
        paper.verbatim("\n".join(safe(line) for line in advice["snippet"].splitlines()))


# --- time ---------------------------------------------------------------------------------------------------------


def _time(paper: Paper, document: Mapping[str, Any]) -> None:
    summary = document["summary"]
    if not summary["time_ms"]:
        return
    took = words.seconds(summary["time_ms"])
    head = f"where {took} of request time went"
    if len(head) >= _NAME:
        head = f"where {took} of requests went"
    paper.line(
        f"{fit(head, _NAME)}{'total ' + words.unit(summary['time_ms']):>9}{'%':>6}{'p50 a call':>12}   source", "bold"
    )
    source = words.sources(document)
    for row in summary["time"]:
        if (row["share"] or 0.0) < _LEAST_SHARE:
            continue  # took no time that shows, or could not be seen in any call: then the coverage line says so
        share = UNKNOWN if row["share"] is None else f"{100 * row['share']:.1f}"
        name = f"  {words.part(row['part'], document, cells=_NAME - 3)}"
        figures = f"{words.span(row['ms'], summary['time_ms']):>9}{share:>6}{format_ms(row['p50_ms']):>12}"
        told = source.get(row["part"], "")
        paper.line(f"{fit(name, _NAME)}{figures}   {told if len(told) <= _SOURCE else 'several'}")


_NAME = 37
"""Cells of the column that names the parts of the time."""
_SOURCE = 80 - _NAME - 9 - 6 - 12 - 3
"""Cells left for the source of a part's figures: `wire, library` fits; of more than two the JSON has each."""


# --- hosts --------------------------------------------------------------------------------------------------------


def _hosts(paper: Paper, document: Mapping[str, Any], *, partial: bool) -> None:
    hosts = document["summary"]["by_host"]
    if not hosts:
        return
    columns = f"{'requests':>9}{'conns':>7}{'failed':>7}{'reuse':>8}{'wait p50':>10}"
    paper.line(f"{fit('other end', 38)}{columns}", "bold")
    for row in hosts[:_MAX_HOSTS]:
        figures = (
            f"{format_count(row['requests']):>9}{format_count(row['connections']):>7}"
            f"{format_count(row['failed_connections']):>7}{words.percent(row['reuse']):>8}"
            f"{format_ms(row['wait_ms']['p50']):>10}"
        )
        paper.line(f"{fit('  ' + words.name_of(row['host'], row['port']), 38)}{figures}")
    if len(hosts) > _MAX_HOSTS:
        paper.line(f"  and {len(hosts) - _MAX_HOSTS:,} more")
    if not partial:
        paper.listed("closed", _closers(document["connections"]))


def _closers(connections: Sequence[Mapping[str, Any]]) -> list[str]:
    ours = [row for row in connections if row["role"] != "server"] or list(connections)
    tally = {
        "by this side": sum(row["closed_by"] == "local" for row in ours),
        "by the other end": sum(row["closed_by"] == "remote" for row in ours),
        "still open": sum(row["close"] == "open" and row["outcome"] == "established" for row in ours),
        "already open before": sum(row["preexisting"] is True for row in ours),
    }
    failed: dict[str, int] = {}
    for row in ours:
        if row["outcome"] not in {"established", "pending", None}:
            failed[row["outcome"]] = failed.get(row["outcome"], 0) + 1
    return [f"{number:,} {what}" for what, number in {**tally, **failed}.items() if number] or ["none"]


# --- notes, coverage, next ----------------------------------------------------------------------------------------


def _notes(paper: Paper, document: Mapping[str, Any], quiet: Sequence[Mapping[str, Any]]) -> None:
    for finding in quiet[:_MAX_NOTES]:
        paper.labelled("note", f"{safe(finding['code'])}: {safe(finding['title'])}")
    if len(quiet) > _MAX_NOTES:
        paper.labelled("note", f"{len(quiet) - _MAX_NOTES:,} more of severity info (-v shows all)")
    for entry in document["ignored"]:
        until = f" until {entry['expires']}" if entry["expires"] else ""
        paper.labelled("ignored", f"{safe(entry['code'])}{until}: {safe(entry['reason'])}")
    early = words.breaks_off(document)
    if early is not None:
        paper.labelled("note", early, style="warning")


def _coverage(paper: Paper, document: Mapping[str, Any], *, partial: bool) -> None:
    coverage = document["coverage"]
    parts = [f"tier {safe(coverage['tier'] or 'unknown')}", *([] if partial else _read_requests(document))]
    probes = coverage["probes"]
    attached = [row for row in probes if row["state"] == "attached"]
    if probes:
        parts.append(f"probes {', '.join(safe(row['name'] or UNKNOWN) for row in attached) or 'none'}")
    if coverage["cost"]["kernel_ms"] is not None:
        share = coverage["cost"]["per_mille_of_target"]
        parts.append(f"cost {words.percent(None if share is None else share / 1000, 2)} of one core")
    paper.listed("coverage", parts)
    for row in probes:
        if row["state"] != "attached":
            paper.labelled("", _missing(row), style="warning")
    for row in coverage["events"]:
        if row["lost"]:
            seen = f" of {row['seen'] + row['lost']:,}" if row["seen"] is not None else ""
            paper.labelled("lost", f"{row['lost']:,}{seen} events of probe {safe(row['probe'])}", style="warning")
    for row in coverage["unobservable"][:_MAX_NOTES]:
        who = f"pid {row['pid']}: " if row["pid"] is not None else ""
        paper.labelled("unseen", f"{who}{safe(row['what'] or '')}: {safe(row['why'] or '')}")


def _missing(probe: Mapping[str, Any]) -> str:
    told = [f"{safe(probe['name'] or UNKNOWN)} is {safe(probe['state'] or 'unknown')}", safe(probe["reason"] or "")]
    remedy = f"; {safe(probe['remedy'])}" if probe["remedy"] else ""
    return ": ".join(part for part in told if part) + remedy


def _read_requests(document: Mapping[str, Any]) -> list[str]:
    """Return how the requests were seen, and on how many connections they could not be."""
    ours, requests = _ours(document)
    names = {"plaintext": "read in plaintext", "records": "from TLS records", "sockets": "from sends and receives"}
    tally = {source: sum(row["source"] == source for row in requests) for source in names}
    told = [f"{number:,}/{len(requests):,} requests {names[source]}" for source, number in tally.items() if number]
    told_of = {row["connection"] for row in requests}
    sealed = sum(
        row["encrypted"] is True
        and row["requests"] is None
        and row["id"] not in told_of
        and row["outcome"] == "established"
        and bool(row["bytes_sent"] or row["bytes_received"])
        for row in ours
    )
    return [*told, f"{words.plural(sealed, 'connection')} encrypted, requests not read"] if sealed else told


def _ours(document: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the connections and requests that the summary counts: those of clients, else those of servers."""
    rows = document["connections"]
    ours = [row for row in rows if row["role"] != "server"] or list(rows)
    kept = {row["id"] for row in ours} | {None}
    return ours, [row for row in document["requests"] if row["connection"] in kept]


def _next(paper: Paper, document: Mapping[str, Any], recording: str | None) -> None:
    loud = [row for row in document["findings"] if row["severity"] != "info"] or document["findings"]
    steps = [f"netdiag explain {safe(loud[0]['code'])}"] if loud else []
    if recording is not None:
        steps.append(f"netdiag report {safe(recording)} -o report.html")
    if steps:
        paper.listed("next", steps)

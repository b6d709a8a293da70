# SPDX-License-Identifier: Apache-2.0
"""A comparison for a terminal and for a ticket: verdict first, then times, shares and causes that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netdiag.render.markdown import escape
from netdiag.text import cut, cut_middle, fit, safe
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = ["markdown", "table"]

_NAMES = {
    "total": "whole call",
    "dns": "name look-up",
    "connect": "TCP connect",
    "tls": "TLS handshake",
    "client-setup": "client set-up",
    "queue": "free connection",
    "send": "sending",
    "server": "server first byte",
    "receive": "receiving",
    "reader": "read late",
    "unattributed": "unattributed",
    "first_token": "first token",
}
_MARKS = {"slower": "slower", "faster": "faster", "same": "", "unknown": "too few"}
_WIDTH = 80
_SMALL = 10.0
_NOTHING_MS = 0.01
_BOLD, _RED, _GREEN, _RESET = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


def table(document: Mapping[str, Any], *, color: bool = False) -> str:
    """Return it in 80 columns."""
    return "\n\n".join("\n".join(_lines(one, color=color)) for one in document["comparisons"]) + _foot(document)


def _foot(document: Mapping[str, Any]) -> str:
    return (
        "\n\nmethod   brackets: 95 % interval of the change (p50 to p99: bootstrap; shares:\n"
        "         Newcombe-Wilson); slower, faster: Mann-Whitney, p < 0.001, 1 % or more\n"
        if document["comparisons"]
        else ""
    )


def _lines(one: Mapping[str, Any], *, color: bool) -> Iterator[str]:
    yield _paint(_verdict(one), color=color, raised=any(row["raised"] for row in one["gate"]))
    for letter in ("a", "b"):
        side = one[letter]
        when = f", {side['started'][:19].replace('T', ' ')} UTC" if side["started"] else ""
        told = f" ({side['kind']}{when}): {_calls(side)}"
        yield f"  {letter.upper()}  {cut_middle(safe(side['name']), max(_WIDTH - 5 - len(told), 12), tail=10)}{told}"
    if one["times"]:
        yield f"{'':18}{'A p50':>8}{'B p50':>8}{'A p99':>8}{'B p99':>8}{'change of p99':>20}"
    for row in _told(one["times"]):
        cells = [row["p50"]["a"], row["p50"]["b"], row["p99"]["a"], row["p99"]["b"]]
        shown = "".join(f"{format_ms(cell):>8}" for cell in cells)
        yield f"{fit(_NAMES[row['metric']], 18)}{shown}{_span(row['p99']):>20} {_MARKS[row['change']]}".rstrip()
    for row in one["shares"]:
        told = "".join(f"{_share(row[letter], 15):>16}" for letter in ("a", "b"))
        points = row["points"]
        change = UNKNOWN if points["change"] is None else f"{points['change']:+.1f} points"
        yield f"{fit(row['metric'], 18)}{told}{change:>20}".rstrip()
    for row in one["causes"]:
        yield cut(f"  {row['change'] or UNKNOWN:<5}{row['code']}  {_costs(row)}", _WIDTH)
    for row in one["gate"]:
        yield cut(f"gate  {fit(_word(row), 8)}{fit(row['rule'], 18)} {_outcome(row)}", _WIDTH)


def _told(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the parts that take time: a reader has no use for microseconds on both sides."""
    return [
        row
        for row in rows
        if row["change"] in {"slower", "faster"}
        or any((row[key][letter] or 0) >= _NOTHING_MS for key in ("mean", "p99") for letter in ("a", "b"))
    ]


def _paint(text: str, *, color: bool, raised: bool) -> str:
    return f"{_BOLD}{_RED if raised else _GREEN}{text}{_RESET}" if color else text


def _verdict(one: Mapping[str, Any]) -> str:
    if not one["gate"]:
        return "COMPARED  without a gate"
    raised = [row["rule"] for row in one["gate"] if row["raised"]]
    if raised:
        return f"WORSE  {'; '.join(raised)}"
    known = [row for row in one["gate"] if row["p"] is not None]
    if not known:
        return "UNKNOWN  too little is known to tell whether something changed"
    return "OK  no rule of the gate is raised"


def _calls(side: Mapping[str, Any]) -> str:
    return f"{format_count(side['requests'])} request{'' if side['requests'] == 1 else 's'}"


def _span(change: Mapping[str, Any]) -> str:
    if change["change"] is None:
        return UNKNOWN
    digits = 1 if max(abs(change[key]) for key in ("change", "low", "high")) < _SMALL else 0
    value, low, high = (f"{change[key]:+.{digits}f}" for key in ("change", "low", "high"))
    return f"{value} [{low} {high}]"


def _share(side: Mapping[str, Any], room: int) -> str:
    if side["share"] is None:
        return UNKNOWN
    share = f"{100 * side['share']:.1f} % of "
    exact = f"{share}{format_count(side['of'])}"
    return exact if len(exact) <= room else f"{share}{side['of'] / 1e6:.1f}M"


def _word(row: Mapping[str, Any]) -> str:
    return "RAISED" if row["raised"] else "passed" if row["p"] is not None else "unknown"


def _costs(row: Mapping[str, Any]) -> str:
    each = {letter: row[letter]["each_ms"] for letter in ("a", "b") if row[letter]["each_ms"] is not None}
    if row["change"] == "kept":
        return f"{format_ms(each.get('a'))} → {format_ms(each.get('b'))} a call" if each else ""
    letter = "b" if row["change"] == "new" or row["a"]["count"] is None else "a"
    return f"{format_ms(each[letter])} a call" if letter in each else ""


def _outcome(row: Mapping[str, Any]) -> str:
    if row["p"] is None or row["change"] is None:
        return str(row["why"])
    return f"{_span(row)} p {row['p']:.2g}, {row['why']}"


# --- for a ticket -----------------------------------------------------------------------------------------------------


def markdown(document: Mapping[str, Any]) -> str:
    """Return it as Markdown."""
    return "\n\n".join("\n".join(_sections(one)) for one in document["comparisons"]) + "\n"


def _sections(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {escape(_verdict(one))}"
    yield ""
    for letter in ("a", "b"):
        yield f"- {letter.upper()}: {escape(one[letter]['name'])} ({one[letter]['kind']}), {_calls(one[letter])}"
    yield ""
    if one["times"]:
        yield from _grid(
            ("time", "A p50", "B p50", "A p99", "B p99", "change of p99, ms", ""),
            [
                (
                    _NAMES[row["metric"]],
                    *(format_ms(row[key][letter]) for key in ("p50", "p99") for letter in ("a", "b")),
                    _span(row["p99"]),
                    _MARKS[row["change"]],
                )
                for row in _told(one["times"])
            ],
        )
    if one["shares"]:
        yield ""
        yield from _grid(
            ("share", "A", "B", "p"),
            [
                (
                    row["metric"],
                    _share(row["a"], 40),
                    _share(row["b"], 40),
                    UNKNOWN if row["p"] is None else f"{row['p']:.2g}",
                )
                for row in one["shares"]
            ],
        )
    if one["causes"]:
        yield ""
        yield from (f"- {row['change'] or UNKNOWN}: `{row['code']}` {_costs(row)}".rstrip() for row in one["causes"])
    if one["gate"]:
        yield ""
        yield from (
            f"- {'**raised**' if row['raised'] else _word(row)}: {row['rule']}: {_outcome(row)}" for row in one["gate"]
        )


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join(['---', *['---:'] * (len(head) - 1)])} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)

# SPDX-License-Identifier: Apache-2.0
"""The configuration file `netdiag.toml`: findings that a project accepts, each with a reason and a date.

`docs/reference.md` shows one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from netdiag.errors import InputUnreadable, UsageError
from netdiag.findings import Finding
from netdiag.state import effective_uid

__all__ = ["NAME", "Ignore", "load", "parse", "split"]

NAME = "netdiag.toml"
"""Read from the working directory where no other file is named, but never by root: it may be anybody's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """One accepted finding."""

    code: str
    cause: str | None
    """None: whatever the cause."""
    reason: str
    expires: date
    """The first day on which it is reported again."""

    def covers(self, finding: Finding, today: date) -> bool:
        """Tell whether this entry silences the finding today."""
        return self.code == finding.code and self.cause in {None, finding.cause} and today < self.expires


def load(path: Path | None) -> tuple[Ignore, ...]:
    """Read the named file, or `netdiag.toml` of the working directory where there is one and this is not root."""
    if path is None:
        path = Path(NAME)
        if effective_uid() == 0 or not path.is_file():
            return ()
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InputUnreadable(f"{path} is not TOML: {error}") from error
    return parse(content, str(path))


def parse(content: Mapping[str, Any], name: str) -> tuple[Ignore, ...]:
    """Check the content of a file; UsageError says which entry is wrong and how."""
    _only(content, {"ignore"}, name)
    entries = content.get("ignore", [])
    if not isinstance(entries, list):
        raise UsageError(f"{name}: 'ignore' is not a list of tables", hint="write [[ignore]], with two brackets")
    return tuple(_ignore(entry, f"{name}: ignore entry {number}") for number, entry in enumerate(entries, 1))


def _ignore(entry: Any, where: str) -> Ignore:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is not a table")
    _only(entry, {"code", "cause", "reason", "expires"}, where)
    expires = entry.get("expires")
    if type(expires) is not date:  # a datetime is a date, too, and would not compare with one
        raise UsageError(f"{where} needs 'expires', a date", hint="for example expires = 2027-01-31")
    cause = entry.get("cause")
    return Ignore(
        code=_text(entry, "code", where),
        cause=None if cause is None else _text(entry, "cause", where),
        reason=_text(entry, "reason", where),
        expires=expires,
    )


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where} needs {key!r}, a text that is not empty")
    return value


def _only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}", hint=f"known: {', '.join(sorted(known))}")


def split(
    findings: Iterable[Finding], ignores: Sequence[Ignore], today: date
) -> tuple[list[Finding], list[dict[str, Any]]]:
    """Return the findings to report, and those that are accepted as `ignored[]` of the document has them."""
    reported: list[Finding] = []
    ignored: list[dict[str, Any]] = []
    for finding in findings:
        entry = next((entry for entry in ignores if entry.covers(finding, today)), None)
        if entry is None:
            reported.append(finding)
        else:
            ignored.append(
                {
                    "code": finding.code,
                    "cause": finding.cause,
                    "severity": str(finding.severity),
                    "reason": entry.reason,
                    "expires": entry.expires.isoformat(),
                }
            )
    return reported, ignored

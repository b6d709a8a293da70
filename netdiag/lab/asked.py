# SPDX-License-Identifier: Apache-2.0
"""Compares the look-ups that netdiag told with what the lab's name server was asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["compare_questions"]

_SLACK_MS = 60.0
"""A message waits for a processor at either end."""


def compare_questions(document: Mapping[str, Any], facts: Path) -> list[str]:
    """Return what is wrong, empty when every question was seen, with its answer and its time.

    A question that was asked again is one row: of such names only the set is compared.
    """
    asked = [json.loads(line) for line in facts.read_text().splitlines()] if facts.exists() else []
    told = [entry for entry in document["resolutions"] if entry["source"] == "wire"]
    true = Counter((fact["name"], fact["qtype"]) for fact in asked)
    seen = Counter((entry["name"], entry["qtype"]) for entry in told)
    misses = [f"asked for {name} {qtype}, not in the document" for name, qtype in sorted(set(true) - set(seen))]
    misses += [f"{name} {qtype} is in the document, never asked for" for name, qtype in sorted(set(seen) - set(true))]
    plain = [fact for fact in asked if fact["code"] is not None and not fact["cut"] and fact["transport"] == "udp"]
    once = {key for key, count in true.items() if count == 1 and seen[key] == 1}
    for fact in plain:
        key = (fact["name"], fact["qtype"])
        if key not in once:
            continue
        entry = next(entry for entry in told if (entry["name"], entry["qtype"]) == key)
        took = (fact["ended"] - fact["began"]) / 1e6
        if entry["duration_ms"] is None or not took - 1 <= entry["duration_ms"] <= took + _SLACK_MS:
            misses.append(f"{key[0]} {key[1]} took {entry['duration_ms']} ms, truly {took:.1f}")
        if (entry["error"] is not None) != (fact["code"] != 0):
            misses.append(f"{key[0]} {key[1]} ended with {entry['error']}, truly with code {fact['code']}")
    return misses

# SPDX-License-Identifier: Apache-2.0
"""Compare an output with the stored one; `scripts/update-goldens` stores what is there now."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "goldens"


def compare(name: str, text: str, *, update: bool) -> None:
    """Fail where the text differs from the stored one of that name."""
    path = FOLDER / name
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run scripts/update-goldens"
    assert text == path.read_text(encoding="utf-8"), f"{name} differs: look at it, then run scripts/update-goldens"

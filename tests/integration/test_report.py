# SPDX-License-Identifier: Apache-2.0
"""Pages as Chromium shows them: light and dark, narrow and wide, by axe-core's rules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from netdiag.render.html import Part, page
from netdiag.render.route_shown import shown
from tests.fakes import calls, commands, documents
from tests.fakes.routes import checked

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".cache" / "npm" / "node_modules"
ARRIVED = {"r10": (0.0, 250.0, 270.0, 900.0)}


def opened(file, pictures=None):
    if shutil.which("chromium") is None or not (PACKAGES / "axe-core").is_dir():
        pytest.skip("chromium, or axe-core in .cache/npm, is not there: scripts/setup installs them")
    words = ["node", ROOT / "tests" / "clients" / "page.mjs", file, *([pictures] if pictures else [])]
    environ = {**os.environ, "NODE_PATH": str(PACKAGES)}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_page_of_everything_with_hostile_names_is_clean(tmp_path):
    hostile = calls.source(calls=9, hostile=calls.HOSTILE).document()
    parts = [
        Part(document=hostile, name=calls.HOSTILE, arrived=ARRIVED, routes=[shown(calls.HOSTILE, checked())]),
        Part(document=documents.document(), name="two"),
    ]
    (tmp_path / "x.html").write_text(page(parts))
    found = opened(tmp_path / "x.html")
    assert found == {"console": [], "requests": [], "axe": [], "wide": [], "images": 0, "sorted": True}


@pytest.mark.slow
def test_what_is_wrong_is_seen(tmp_path):
    """The checker itself: a page with each fault."""
    (tmp_path / "x.html").write_text(
        "<!doctype html><html><title>x</title><body><img src='http://127.0.0.1:9/x'>"
        "<p style='width:2000px;color:#eee'>pale</p><script>alert(1)</script></body></html>"
    )
    found = opened(tmp_path / "x.html")
    assert found["requests"]
    assert found["images"] == 4
    assert found["wide"]
    assert any("image-alt" in line for line in found["axe"])
    assert any("dialog" in line for line in found["console"])


@pytest.mark.slow
def test_a_real_capture(tmp_path, capsys):
    capture = ROOT / "tests" / "captures" / "own_sse_plain_stall1.5s.pcap"
    assert commands.call(capsys, "report", capture, "-o", tmp_path / "x.html").status == 0
    found = opened(tmp_path / "x.html")
    assert (found["console"], found["requests"], found["axe"], found["wide"]) == ([], [], [], [])

# SPDX-License-Identifier: Apache-2.0
"""Programs that end with their starter, and namespaces whose maker is gone."""

from __future__ import annotations

import os
import subprocess
import sys

from netdiag.route.lab.lifeline import orphans

PROGRAM = """
import threading
from netdiag.route.lab.lifeline import end_with_starter
end_with_starter()
threading.Event().wait()
"""


def test_a_program_ends_when_its_starter_lets_go():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0


def test_only_namespaces_of_labs_whose_maker_is_gone(tmp_path):
    names = [f"ndroute-{os.getpid()}-1-c", "ndroute-77-1-s", "ndlab-77-1-c", "ndroute-x", "other"]
    (tmp_path / str(os.getpid())).mkdir()
    assert orphans(names, tmp_path) == ["ndroute-77-1-s"]

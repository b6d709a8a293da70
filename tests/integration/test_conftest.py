# SPDX-License-Identifier: Apache-2.0
"""The rule that CI skips no kernel test, tried on a small suite of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import pytest

@pytest.mark.kernel
def test_of_the_kernel():
    {kernel}

def test_of_something_else():
    {other}
"""


TOO_OLD = "pytest.skip('the kernel is too old')"


def run(folder: Path, kernel: str, other: str, **environment: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "test_small.py").write_text(SUITE.format(kernel=kernel, other=other))
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_small.py"]
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True, check=False)


def test_a_skipped_kernel_test_fails_ci(tmp_path):
    done = run(tmp_path, TOO_OLD, "pass", CI="true")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "kernel tests skipped: CI must run them" in done.stdout
    assert "test_small.py::test_of_the_kernel" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout.splitlines()[-1]


def test_elsewhere_it_is_a_skip_with_its_reason(tmp_path):
    done = run(tmp_path, TOO_OLD, "pass")
    assert done.returncode == pytest.ExitCode.OK
    reason = "the kernel is too old" if os.geteuid() == 0 else "needs root"
    assert reason in done.stdout


@pytest.mark.kernel
def test_another_skip_does_not_fail_ci(tmp_path):
    done = run(tmp_path, "pass", "pytest.skip('no node')", CI="true")
    assert done.returncode == pytest.ExitCode.OK
    assert "1 passed, 1 skipped" in done.stdout.splitlines()[-1]


def test_a_failure_stays_a_failure(tmp_path):
    done = run(tmp_path, "pass", "assert 1 + 1 == 3")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED

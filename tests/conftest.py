# SPDX-License-Identifier: Apache-2.0
"""What all tests share: when kernel tests can run, property test profiles, and the rule that CI skips none of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest

CI = os.environ.get("CI") == "true"
FUZZ_EXAMPLES = int(os.environ.get("NETDIAG_FUZZ_EXAMPLES", "100"))
BTF = Path("/sys/kernel/btf/vmlinux")

# A shared machine is slow at times: no deadlines. CI draws the same examples each run, so a failure can be repeated.
# No database: a checkout that a user and root test in turn must hold no files that one of them cannot write.
hypothesis.settings.register_profile(
    "netdiag",
    deadline=None,
    max_examples=FUZZ_EXAMPLES,
    derandomize=CI,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("netdiag")

_skipped_kernel_tests: list[str] = []

# Whoever started the tests in the background may have had these ignored, which programs pass on: tests send them.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def kernel_obstacle() -> str | None:
    """Return why kernel tests cannot run here, or None."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root: run scripts/test as root"
    if not BTF.exists():
        return f"needs a kernel with BTF ({BTF} is missing)"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the kernel tests with the reason where they cannot run; run them last, for they are the slowest."""
    obstacle = kernel_obstacle()
    for item in items:
        if obstacle is not None and item.get_closest_marker("kernel"):
            item.add_marker(pytest.mark.skip(reason=obstacle))
    items.sort(key=lambda item: item.get_closest_marker("kernel") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Remember kernel tests that were skipped."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("kernel"):
        _skipped_kernel_tests.append(item.nodeid)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a CI run in which a kernel test was skipped."""
    if CI and _skipped_kernel_tests and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why the run failed although every test that ran passed."""
    if CI and _skipped_kernel_tests:
        terminalreporter.section("kernel tests skipped: CI must run them", red=True)
        for nodeid in _skipped_kernel_tests:
            terminalreporter.line(nodeid)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the top folder of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def lab_python() -> str:
    """Return a Python that has the client libraries which lab and kernel tests trace; skip where there is none."""
    python = os.environ.get("NETDIAG_LAB_PYTHON")
    if not python:
        pytest.skip("needs the client libraries: run scripts/setup --lab and set NETDIAG_LAB_PYTHON")
    return python


@pytest.fixture
def update_goldens() -> bool:
    """Return whether tests marked `golden` shall rewrite what they compare with (scripts/update-goldens)."""
    return os.environ.get("NETDIAG_UPDATE_GOLDENS") == "1"

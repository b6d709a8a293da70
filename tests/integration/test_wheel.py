# SPDX-License-Identifier: Apache-2.0
"""What is built is what runs: sdist, wheel and wheel-from-sdist agree, and an installed wheel works on its own.

The installing tests fetch the dependencies as any user would, by pip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from netdiag import __version__
from netdiag.recording.writer import RecordingWriter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DATA = ("bpf", "probes", "reports")
ARCHITECTURES = ("arm64", "x86_64")

LINUX_ONLY = {
    "darwin": {
        "modules": ["spwd"],
        "attributes": {
            "os": [
                "memfd_create",
                "pidfd_open",
                "sched_getaffinity",
                "sched_setaffinity",
                "setns",
                "splice",
                "unshare",
            ],
            "select": ["epoll"],
            "socket": ["AF_NETLINK", "AF_PACKET", "SO_PEERCRED"],
        },
    },
    "win32": {
        "modules": ["fcntl", "grp", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty"],
        "attributes": {
            "os": [
                *("chown", "fork", "getegid", "geteuid", "getgid", "getuid", "initgroups", "killpg", "memfd_create"),
                *("pidfd_open", "posix_spawn", "sched_getaffinity", "sched_setaffinity", "setns", "setsid", "uname"),
                *("unshare", "wait4", "waitid", "WNOHANG"),
            ],
            "select": ["epoll", "poll"],
            "signal": ["SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1", "pthread_sigmask"],
            "socket": ["AF_NETLINK", "AF_PACKET", "AF_UNIX", "CMSG_LEN", "SCM_RIGHTS", "SO_PEERCRED"],
        },
    },
}
"""What the standard library has on Linux and not there. ctypes is everywhere, libbpf nowhere else."""

WITHOUT_LINUX = """
import ctypes, importlib, json, sys
import click, jinja2, numpy, pandas  # each knows its platforms by itself
import asyncio, pathlib, platform, shutil, subprocess, tempfile

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in lacking["modules"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def no_library(name, *args, **kwargs):
    raise OSError(f"{name}: not on this system")

lacking = json.loads(sys.argv[1])
for name in lacking["modules"]:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
for module, names in lacking["attributes"].items():
    for name in names:
        vars(importlib.import_module(module)).pop(name, None)
ctypes.CDLL = no_library
sys.platform = lacking["platform"]

from netdiag.cli.main import run
sys.exit(run(sys.argv[2:]))
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program outside the checkout, without the variables that would lead it back."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False)


def try_to_build(source: Path, out: Path, kind: str) -> subprocess.CompletedProcess[str]:
    """Build a sdist or wheel of the source tree with the build backend of this environment."""
    return run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source, cwd=out.parent)


def build(source: Path, out: Path, kind: str) -> Path:
    """Build a sdist or wheel that must succeed; return the file."""
    done = try_to_build(source, out, kind)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


def members(wheel: Path) -> dict[str, int]:
    """Return name → checksum of what a wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        return {member.filename: member.CRC for member in archive.infolist()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist") / "out", "sdist")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel") / "out", "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of a new virtual environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_wheel_and_wheel_from_sdist_agree(wheel, sdist, tmp_path):
    assert run("tar", "-xf", sdist, cwd=tmp_path).returncode == 0
    (unpacked,) = tmp_path.iterdir()
    again = build(unpacked, tmp_path / "out", "wheel")
    assert members(again) == members(wheel)


def test_nothing_is_built_without_the_kernel_programs(sdist, tmp_path):
    assert run("tar", "-xf", sdist, cwd=tmp_path).returncode == 0
    (unpacked,) = tmp_path.iterdir()
    lost = min((unpacked / "bpf" / "build").rglob("*.bpf.o"))
    lost.unlink()
    done = try_to_build(unpacked, tmp_path / "out", "wheel")
    assert done.returncode != 0
    assert f"not built: {lost.relative_to(unpacked)}; run make -C bpf first" in done.stdout + done.stderr


def test_the_sdist_has_what_a_packager_needs(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "bpf/Makefile", "bpf/LICENSE", "scripts/test", "tests/conftest.py"} <= names
    assert not [name for name in names if name.startswith((".venv", ".cache")) or name.endswith(".pyc")]


def test_only_netdiag_lands_on_the_import_path(wheel):
    tops = {name.split("/")[0] for name in members(wheel)}
    assert tops == {"netdiag", f"netdiag_ebpf-{__version__}.dist-info"}


def test_the_wheel_has_all_data_and_nothing_stray(wheel):
    packed = {name.removeprefix("netdiag/_data/") for name in members(wheel) if name.startswith("netdiag/_data/")}
    sources = list((ROOT / "bpf").glob("*.bpf.c"))
    objects = {
        f"bpf/build/{architecture}/{source.name.removesuffix('.c')}.o"
        for source in sources
        for architecture in ARCHITECTURES
    }
    manifests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "probes").rglob("*.toml")}
    assert sources
    assert objects | manifests <= packed
    assert {name.split("/")[0] for name in packed} == set(DATA)
    assert {name for name in packed if name.startswith("bpf/build/")} == objects
    assert not [name for name in packed if name.endswith((".py", ".pyc", "~"))]


def test_the_wheel_has_all_modules(wheel):
    folder = ROOT / "netdiag"
    modules = {path.relative_to(ROOT).as_posix() for path in folder.rglob("*.py")}
    assert modules | {"netdiag/py.typed"} == {
        name for name in members(wheel) if name.endswith((".py", "py.typed")) and not name.startswith("netdiag/_data")
    }


def test_the_version_is_told(installed, tmp_path):
    done = run(installed / "netdiag", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def test_the_installed_command_finds_its_probes(installed, tmp_path):
    done = run(installed / "netdiag", "probes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    manifests = [tomllib.loads(path.read_text()) for path in (ROOT / "probes").glob("*.toml")]
    names = {manifest["name"] for manifest in manifests if "attach" in manifest}
    assert names
    assert names <= set(done.stdout.split())


def test_the_installed_module_runs_too(installed, tmp_path):
    done = run(installed / "python", "-m", "netdiag", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def test_the_installed_package_comes_from_the_environment(installed, tmp_path):
    source = "import netdiag.assets; print(netdiag.assets.data_dir('bpf'))"
    done = run(installed / "python", "-c", source, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed.parent)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return a recording in which nothing happened, and that was ended properly."""
    path = tmp_path / "quiet.netdiag"
    instants = {"monotonic_ns": 10**9, "realtime_ns": 1_700_000_000 * 10**9, "boottime_ns": 10**9}
    header = {
        "version": __version__,
        "started": "2023-11-14T22:13:20.000000000Z",
        "clock": instants,
        "host": {"kernel": "6.1", "arch": "x86_64", "btf": True, "cpus": 2, "hz": 250},
        "target": {},
        "command": None,
        "tier": "btf",
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    writer = RecordingWriter(descriptor, header)
    writer.end("interrupted", 2 * 10**9)
    os.close(descriptor)
    return path


def elsewhere(system: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a netdiag command where this Linux lacks what `system` (a value of sys.platform) lacks."""
    lacking = json.dumps({"platform": system, **LINUX_ONLY[system]})
    return run(sys.executable, "-c", WITHOUT_LINUX, lacking, *arguments, cwd=cwd)


@pytest.mark.parametrize("system", sorted(LINUX_ONLY))
def test_analyze_runs_where_linux_is_not(system, recording, tmp_path):
    done = elsewhere(system, "analyze", recording, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "netdiag.trace/1"
    assert document["connections"] == document["findings"] == []


@pytest.mark.parametrize("system", sorted(LINUX_ONLY))
def test_report_runs_where_linux_is_not(system, recording, tmp_path):
    page = tmp_path / "page.html"
    done = elsewhere(system, "report", recording, "-o", page, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")


@pytest.mark.parametrize("system", sorted(LINUX_ONLY))
def test_trace_says_what_to_do_where_linux_is_not(system, tmp_path):
    done = elsewhere(system, "trace", "--duration", "1", cwd=tmp_path)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "Traceback" not in done.stderr

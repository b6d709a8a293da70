# SPDX-License-Identifier: Apache-2.0
"""Root's copy of the recorder: exactly what it needs, found by content, trusted only while it is root's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the recorder runs on Linux only", allow_module_level=True)

from netdiag.errors import NotPermitted
from netdiag.recorder import install as install_module
from netdiag.recorder.install import code_root, copy_of, digest, foreign_code, install, parts

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make root's files")


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small installation with a recorder that imports one module, and one that it does not."""
    root = tmp_path / "code"
    texts = {
        "netdiag/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import netdiag.other\n",
        "netdiag/errors.py": "",
        "netdiag/other.py": "",
        "netdiag/late.py": "import json\n",
        "netdiag/recorder/__init__.py": "",
        "netdiag/recorder/launch.py": "from netdiag.recorder.__main__ import main\n",
        "netdiag/recorder/__main__.py": "from netdiag import errors\ndef main():\n    import netdiag.late\n",
        "bpf/build/x86_64/tcp.bpf.o": "object",
        "bpf/tcp.bpf.c": "source",
        "probes/tcp.toml": "schema = 1\n",
        "probes/tls/openssl.toml": "schema = 1\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(install_module, "data_dir", lambda kind: root / kind)
    return root


def test_a_copy_has_what_the_recorder_imports_and_the_data(code):
    assert set(parts(code)) == {
        "netdiag/__init__.py",
        "netdiag/errors.py",
        "netdiag/late.py",
        "netdiag/recorder/__init__.py",
        "netdiag/recorder/__main__.py",
        "netdiag/recorder/launch.py",
        "bpf/build/x86_64/tcp.bpf.o",
        "probes/tcp.toml",
        "probes/tls/openssl.toml",
    }


def test_the_digest_follows_the_content_and_the_names(code):
    before = digest(parts(code))
    assert digest(parts(code)) == before
    (code / "netdiag/other.py").write_text("changed = True\n")
    assert digest(parts(code)) == before
    (code / "netdiag/late.py").write_text("import json, os\n")
    changed = digest(parts(code))
    assert changed != before
    (code / "probes/tcp.toml").rename(code / "probes/udp.toml")
    assert digest(parts(code)) not in (before, changed)


def test_the_recorder_of_this_checkout_is_complete_without_the_rest():
    names = {name for name in parts(code_root()) if name.endswith(".py")}
    assert {"netdiag/__init__.py", "netdiag/recorder/launch.py", "netdiag/recorder/link.py"} <= names
    assert not any(
        name.startswith(("netdiag/cli", "netdiag/tables", "netdiag/analysis", "netdiag/render")) for name in names
    )


@AS_ROOT
def test_a_copy_is_made_once_and_found_again(code, tmp_path):
    copies = tmp_path / "copies"
    assert copy_of(code, copies) is None
    made = install(code, copies)
    assert made == copies / digest(parts(code))
    assert copy_of(code, copies) == made
    stamp = made.stat().st_ino
    assert install(code, copies).stat().st_ino == stamp
    assert [path.name for path in copies.iterdir()] == [made.name]
    assert digest({name: made / name for name in parts(code)}) == made.name


@AS_ROOT
def test_owners_and_modes_are_roots_whatever_the_umask(code, tmp_path):
    before = os.umask(0)
    try:
        made = install(code, tmp_path / "copies")
    finally:
        os.umask(before)
    for path in (made, *made.rglob("*")):
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (0, 0)
        assert found.st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


@AS_ROOT
def test_a_copy_that_somebody_could_change_is_not_used_and_is_made_anew(code, tmp_path):
    copies = tmp_path / "copies"
    made = install(code, copies)
    (made / "netdiag/errors.py").write_text("tampered = True\n")
    assert install(code, copies) == made
    assert (made / "netdiag/errors.py").read_text() == ""
    os.chown(made / "netdiag/late.py", 65534, 65534)
    assert copy_of(code, copies) is None
    assert "netdiag/late.py belongs to" in str(foreign_code(made))


@AS_ROOT
def test_a_place_that_others_can_write_gets_no_copy(code, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    copies.chmod(0o777)
    with pytest.raises(NotPermitted, match="can be written by others"):
        install(code, copies)


@AS_ROOT
def test_a_real_copy_starts_isolated(tmp_path):
    made = install(code_root(), tmp_path / "copies")
    arguments = [sys.executable, "-I", "-S", str(made / "netdiag/recorder/launch.py")]
    said = subprocess.run(arguments, cwd="/", env={}, stderr=subprocess.PIPE, text=True, check=False)
    assert said.stderr.startswith("usage: netdiag-recorder --socket PATH --uid")


def test_only_root_installs(code, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotPermitted, match="only root"):
        install(code, tmp_path)

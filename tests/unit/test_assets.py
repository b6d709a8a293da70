# SPDX-License-Identifier: Apache-2.0
"""netdiag.assets: the packaged folder wins, the checkout is next, and what is missing is told with a remedy."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from netdiag import assets
from netdiag.errors import Unsupported


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for the installed package: a folder without data, inside a folder without data."""
    folder = tmp_path / "netdiag"
    folder.mkdir()
    monkeypatch.setattr(assets, "_PACKAGE", folder)
    return folder


def test_the_checkout_has_its_data_at_the_top(root):
    assert assets.data_dir("bpf") == root / "bpf"


def test_packaged_data_wins_over_a_checkout(package):
    (package.parent / "probes").mkdir()
    packaged = package / "_data" / "probes"
    packaged.mkdir(parents=True)
    assert assets.data_dir("probes") == packaged


def test_the_checkout_is_used_where_nothing_is_packaged(package):
    (package.parent / "reports").mkdir()
    assert assets.data_dir("reports") == package.parent / "reports"


@pytest.mark.usefixtures("package")
def test_missing_data_is_told():
    with pytest.raises(Unsupported, match="'reports' is missing") as caught:
        assets.data_dir("reports")
    assert "reinstall" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("machine", "folder"),
    [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64"), ("arm64", "arm64")],
)
def test_the_object_is_that_of_the_processor(package, monkeypatch, machine, folder):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    wanted = package / "_data" / "bpf" / "build" / folder / "tcp.bpf.o"
    wanted.parent.mkdir(parents=True)
    wanted.touch()
    assert assets.bpf_object("tcp") == wanted


@pytest.mark.usefixtures("package")
def test_an_unknown_processor_is_told(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(Unsupported, match="'riscv64'"):
        assets.bpf_object("tcp")


def test_an_object_that_was_not_built_is_told(package, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (package / "_data" / "bpf").mkdir(parents=True)
    with pytest.raises(Unsupported, match="'tcp' was not built for x86_64") as caught:
        assets.bpf_object("tcp")
    assert "scripts/setup" in str(caught.value.hint)

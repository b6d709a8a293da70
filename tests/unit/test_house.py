# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that no linter knows: sizes, mirror tests, data folders without code, licence lines, words."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 500
NOT_OURS = {"build", "dist", "node_modules", "__pycache__"}
CODE = {".py", ".c", ".h", ".mjs", ".js", ".css", ".sh"}
KINDS = ("unit", "integration", "kernel")
HERE = Path(__file__).resolve()
TRACED_PROGRAMS = ROOT / "netdiag" / "lab" / "clients"
"""Programs that the lab runs as somebody else's code, with libraries that netdiag itself does not need."""

WITHOUT_MIRROR = {
    "netdiag/__main__.py": "three lines; tests/integration/test_wheel.py runs the command",
}
"""Modules that need no test of their own, with the reason. The list must not grow without one."""

DISTRIBUTIONS = {
    "dns": "dnspython",
    "google": "protobuf",
    "opentelemetry": "opentelemetry-proto",
    "pynvml": "nvidia-ml-py",
}
"""Packages that are imported under another name than they are installed by."""

BANNED = {
    "a duty that nobody checks: make it one source, or a test": r"(?i)\bkeep\w* (?:\w+ )?in sync\b",
    "unfinished work": r"\b(?:TODO|FIXME|XXX|HACK|NotImplementedError)\b",
    "a path of one machine": r"(?:^|[\s\"'`(=:])/(?:work|root)/",
}


@cache
def files() -> tuple[Path, ...]:
    """Return every file of the project: hidden, built and cached ones left out."""

    def walk(folder: Path) -> Iterator[Path]:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name.startswith(".") or entry.name in NOT_OURS:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from walk(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)

    return (*walk(ROOT), ROOT / ".ci" / "run")


def code() -> list[Path]:
    """Return the files that are read as code: by their suffix, or as scripts and makefiles without one."""
    return [path for path in files() if path.suffix in CODE or path.name == "Makefile" or is_script(path)]


def is_script(path: Path) -> bool:
    return not path.suffix and os.access(path, os.X_OK) and path.read_bytes()[:2] == b"#!"


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def modules() -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and path.is_relative_to(ROOT / "netdiag")]


def mirrors(module: Path) -> list[Path]:
    """Return the files that test a module: tests/unit/a/test_b.py or test_b_<topic>.py for netdiag/a/b.py.

    What only real traffic or a real process can show has the same name in tests/integration or tests/kernel.
    A package's own file is tested by test_init.py inside the package's folder, or by test_<package>.py beside or in it.
    """
    inside = module.relative_to(ROOT / "netdiag")
    found: list[Path] = []
    for kind in KINDS:
        folder = ROOT / "tests" / kind / inside.parent
        if inside.name == "__init__.py":
            name = inside.parent.name
            places = (folder / "test_init.py", folder / f"test_{name}.py", folder.parent / f"test_{name}.py")
            found += [path for path in places if path.exists()]
        else:
            stem = inside.stem.strip("_")
            found += [*folder.glob(f"test_{stem}.py"), *folder.glob(f"test_{stem}_*.py")]
    return found


def does_something(module: Path) -> bool:
    """Return whether a module defines functions or classes: re-exports and constants need no test."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in ast.parse(module.read_text()).body)


def test_the_walk_finds_the_project():
    names = {short(path) for path in files()}
    assert {"netdiag/errors.py", "scripts/setup", ".ci/run", "bpf/Makefile"} <= names
    assert not any(name.startswith((".venv/", "bpf/build/")) for name in names)


def test_no_module_is_too_long():
    sizes = {short(path): len(path.read_text().splitlines()) for path in code()}
    assert {name: lines for name, lines in sizes.items() if lines > MAX_LINES} == {}


def test_every_module_has_its_mirror_test():
    own = [module for module in modules() if not module.is_relative_to(TRACED_PROGRAMS)]
    naked = {short(module) for module in own if does_something(module) and not mirrors(module)}
    assert sorted(naked - set(WITHOUT_MIRROR)) == []


def test_the_exemptions_are_still_needed():
    assert [name for name in WITHOUT_MIRROR if not (ROOT / name).exists() or mirrors(ROOT / name)] == []


def test_every_unit_test_has_its_module():
    """A test whose module was renamed or removed is found here."""
    house = {"test_house.py", "test_layers.py"}
    tested = {path for module in modules() for path in mirrors(module)}
    tests = {path for path in files() if path.is_relative_to(ROOT / "tests" / "unit") and path.name.startswith("test_")}
    assert sorted(short(path) for path in tests - tested if path.name not in house) == []


@pytest.mark.parametrize("folder", ["bpf", "probes", "reports"])
def test_data_folders_hold_no_code(folder):
    assert [short(path) for path in files() if path.is_relative_to(ROOT / folder) and path.suffix == ".py"] == []


def test_every_file_names_its_licence():
    lines = {path: path.read_text().splitlines()[:3] for path in code()}
    bare = [short(path) for path, head in lines.items() if head and "SPDX-License-Identifier:" not in " ".join(head)]
    assert bare == []


def test_kernel_programs_offer_both_licences():
    sources = [path for path in files() if path.is_relative_to(ROOT / "bpf") and path.suffix in (".c", ".h")]
    wanted = "SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only"
    assert [short(path) for path in sources if wanted not in path.read_text()] == []


@pytest.mark.parametrize("why", sorted(BANNED))
def test_banned_words(why):
    pattern = re.compile(BANNED[why], re.MULTILINE)
    pages = [path for path in files() if path.suffix in {".md", ".toml", ".html"}]
    found = [
        f"{short(path)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"
        for path in (*code(), *pages)
        if path != HERE
        for text in [path.read_text()]
        for match in pattern.finditer(text)
    ]
    assert found == [], why


@pytest.mark.parametrize(
    ("text", "banned"),
    [
        ("# Keep this in sync with types.h", True),
        ("x = 1  # TODO: later", True),
        ("open('/root/x')", True),
        ("/proc/self/root/usr/lib", False),
        ("mkstemp XXXXXX", False),
    ],
)
def test_the_patterns_catch_what_they_mean(text, banned):
    assert any(re.search(pattern, text, re.MULTILINE) for pattern in BANNED.values()) is banned


def test_public_modules_say_what_is_public():
    bare = [
        short(module)
        for module in modules()
        if not module.name.startswith("_") and does_something(module) and "\n__all__ = " not in module.read_text()
    ]
    assert bare == []


def test_dependencies_are_what_the_code_imports():
    extras = [lines for name, lines in project()["optional-dependencies"].items() if name != "dev"]
    declared = {re.split(r"[<>=\[~]", line)[0] for line in (*project()["dependencies"], *chain(*extras))}
    imported: set[str] = set()
    for module in modules():
        if module.is_relative_to(TRACED_PROGRAMS):
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).split(".")[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "import_module":
                imported.add(ast.unparse(node.args[0]).strip("f'\"").split(".")[0])
    imported = {DISTRIBUTIONS.get(name, name) for name in imported}
    assert imported - set(sys.stdlib_module_names) - {"netdiag"} == declared


def test_decisions_are_numbered_without_a_gap():
    folder = ROOT / "docs" / "decisions"
    numbers = sorted(int(path.name[:4]) for path in folder.glob("[0-9]*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
    index = (folder / "README.md").read_text()
    assert [path.name for path in folder.glob("[0-9]*.md") if path.name not in index] == []


def test_pages_that_pages_name_exist():
    pages = [path for path in files() if path.suffix == ".md"]
    named = {name for page in pages for name in re.findall(r"\bdocs/[\w/.-]+\.md\b", page.read_text())}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_changelog_knows_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    version = re.search(r'__version__ = "(.+)"', (ROOT / "netdiag" / "__init__.py").read_text())
    assert version is not None
    assert f"## [{version[1]}]" in text or "## [Unreleased]" in text


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["project"])

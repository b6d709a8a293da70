# SPDX-License-Identifier: Apache-2.0
"""Imports go downward only. The layers are those of the table in docs/architecture.md; nothing is executed here."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDARD = sys.stdlib_module_names
TRACED_PROGRAMS = ("lab", "clients")
"""A folder of programs that the lab runs as somebody else's code, under another Python; netdiag imports none of it."""

STANDARD_ONLY = (
    "assets",
    "btf",
    "ebpf",
    "errors",
    "kernel",
    "libraries",
    "manifest",
    "privilege",
    "processes",
    "recorder",
    "recording.writer",
    "symbols",
)
"""The recorder and all that it loads: a third-party import there costs its start-up time and memory."""

OWNERS = {
    "click": ("cli",),
    "ctypes": ("ebpf", "privilege", "lab.router", "weights.residency"),
    "jinja2": ("render.html",),
    "textual": ("tui",),
    "pyarrow": ("export.parquet",),
    "opentelemetry": ("export.otlp",),
}
"""Who may import a library that nobody else may. The lab's router enters a network namespace: os.setns is of 3.12."""

NO_NUMBERS = ("L0", "L1", "L3", "L4")
"""Layers that see neither NumPy nor pandas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, by its full name, and where the statement stands."""

    name: str
    line: int


def modules_of(package: Path) -> dict[str, Path]:
    """Return dotted name → file of every module below `package` (a folder that is itself a package)."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if parts[1:3] == TRACED_PROGRAMS:
            continue
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """Yield what a file imports, in functions and for typing too: `from a import b` is a.b where that is a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(name=alias.name, line=node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield Import(name=whole if whole in known else str(node.module), line=node.lineno)


def graph_of(package: Path) -> dict[str, set[str]]:
    """Return module → everything it imports."""
    known = modules_of(package)
    return {name: {found.name for found in imports_of(path, known)} for name, path in known.items()}


def layer_table(text: str) -> dict[str, str]:
    """Return first part of the module name → layer (`L0` …), read from the table of the architecture page."""
    rows = re.findall(r"^\| (L\d) \| (.+?) \|", text, re.MULTILINE)
    return {name: layer for layer, cell in rows for name in re.findall(r"`([a-z_]+)[/`]", cell)}


def upward(graph: dict[str, set[str]], layers: dict[str, str]) -> list[str]:
    """Return a sentence for every import of a higher layer."""
    wrong = []
    for module, imported in sorted(graph.items()):
        mine = layers.get(top(module))
        for name in sorted(imported & set(graph)):
            theirs = layers.get(top(name))
            if mine is not None and theirs is not None and theirs > mine:
                wrong.append(f"{module} ({mine}) imports {name} ({theirs})")
    return wrong


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle, or nothing."""
    done: set[str] = set()

    def visit(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        for name in sorted(graph[module] & set(graph)):
            if found := visit(name, [*trail, module]):
                return found
        done.add(module)
        return []

    for module in sorted(graph):
        if found := visit(module, []):
            return found
    return []


def reach(graph: dict[str, set[str]], start: str) -> dict[str, str]:
    """Return everything that importing `start` loads, each with the module that imports it, packages included."""
    found = {start: start}
    queue = [start]
    while queue:
        module = queue.pop()
        parents = {module.rsplit(".", 1)[0]} if "." in module and module in graph else set()
        for name in graph.get(module, set()) | parents:
            if name not in found:
                found[name] = module
                queue.append(name)
    return found


def top(module: str) -> str:
    """Return the part of a module's name that the table knows: `render` of `netdiag.render.html`."""
    return module.split(".")[1] if "." in module else ""


def below(module: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether the module is one of, or inside, the named parts of netdiag."""
    return any(f"{module}.".startswith(f"netdiag.{prefix}.") for prefix in prefixes)


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return graph_of(ROOT / "netdiag")


@pytest.fixture(scope="module")
def layers() -> dict[str, str]:
    return layer_table((ROOT / "docs" / "architecture.md").read_text())


def test_the_table_is_understood(layers):
    assert layers["errors"] == "L0"
    assert layers["recorder"] == "L4"
    assert layers["analysis"] == "L5"
    assert layers["cli"] == "L7"


def test_every_module_has_a_layer(graph, layers):
    free = {"", "__main__", "testing"}
    strangers = {top(module) for module in graph} - set(layers) - free
    assert not strangers, f"not in the table of docs/architecture.md: {sorted(strangers)}"


def test_imports_go_downward(graph, layers):
    assert upward(graph, layers) == []


def test_there_is_no_cycle(graph):
    assert cycle_in(graph) == []


def test_pure_layers_do_not_touch_the_system(graph, layers):
    wrong = [
        f"{module} loads {name} (through {how})"
        for module in graph
        if below(module, ("analysis", "render", "document", "tables", "tui"))
        for name, how in reach(graph, module).items()
        if layers.get(top(name)) in ("L3", "L4") and name in graph
    ]
    assert wrong == []


def test_the_recorder_needs_the_standard_library_only(graph):
    wrong = [
        f"{module} loads {name} (through {how})"
        for module in graph
        if below(module, STANDARD_ONLY)
        for name, how in reach(graph, module).items()
        if name not in graph and name.split(".")[0] not in STANDARD
    ]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_a_library_stays_with_its_owner(graph, library):
    users = {module for module, names in graph.items() if any(name.split(".")[0] == library for name in names)}
    assert {module for module in users if not below(module, OWNERS[library])} == set()


def test_low_layers_see_no_tables(graph, layers):
    wrong = [
        f"{module} imports {name}"
        for module, names in graph.items()
        for name in names
        if layers.get(top(module)) in NO_NUMBERS and name.split(".")[0] in ("numpy", "pandas")
    ]
    assert wrong == []


def test_product_code_never_imports_the_fakes(graph):
    users = {module for module, names in graph.items() if any(below(name, ("testing",)) for name in names)}
    assert {module for module in users if not below(module, ("testing",))} == set()


def make_package(folder: Path, **sources: str) -> dict[str, set[str]]:
    package = folder / "netdiag"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source)
    return graph_of(package)


def test_an_upward_import_is_seen_even_inside_a_function(tmp_path):
    graph = make_package(tmp_path, errors="def f():\n    from netdiag import cli\n", cli="")
    assert upward(graph, {"errors": "L0", "cli": "L7"}) == ["netdiag.errors (L0) imports netdiag.cli (L7)"]


def test_a_cycle_is_seen(tmp_path):
    graph = make_package(
        tmp_path,
        one="import netdiag.two\n",
        two="from netdiag.three import x\n",
        three="from netdiag import one\n",
    )
    assert cycle_in(graph) == ["netdiag.one", "netdiag.two", "netdiag.three", "netdiag.one"]


def test_what_an_import_loads_is_followed(tmp_path):
    graph = make_package(tmp_path, one="import netdiag.two\n", two="import numpy.linalg\n")
    assert reach(graph, "netdiag.one")["numpy.linalg"] == "netdiag.two"

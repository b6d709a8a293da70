# SPDX-License-Identifier: Apache-2.0
"""Root's own copy of the recorder, for installations that belong to a user.

What is elevated must be code that only root can change. A checkout or a virtual environment is not, so the recorder's
modules, kernel programs and probe descriptions are copied to /usr/local/lib/netdiag/DIGEST, where DIGEST is that of
their content: a copy serves exactly the code that it was made from. `python -I -m netdiag.recorder.install` makes one.
Standard library only.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import py_compile
import shutil
from collections.abc import Iterator
from pathlib import Path

from netdiag.assets import data_dir
from netdiag.errors import NotPermitted
from netdiag.privilege import foreign_entry, foreign_hand

__all__ = ["COPIES", "code_root", "copy_of", "digest", "foreign_code", "install", "parts"]

COPIES = Path("/usr/local/lib/netdiag")
"""Where root's copies lie, one folder per digest."""

_ENTRY = "netdiag.recorder.launch"
_DIGEST_DIGITS = 24


def code_root() -> Path:
    """Return the folder that holds the running `netdiag` package."""
    found = importlib.util.find_spec("netdiag")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("netdiag", name="netdiag")
    return Path(next(iter(found.submodule_search_locations))).resolve().parent


def parts(root: Path) -> dict[str, Path]:
    """Return every file that the recorder needs: its path in a copy → where it is now.

    The modules are those that the entry imports, directly or not; a copy is laid out as a checkout.
    """
    found = {str(path.relative_to(root)): path for path in sorted(_imported(root))}
    for kind, pattern in (("bpf", "build/**/*.bpf.o"), ("probes", "**/*.toml")):
        folder = data_dir("bpf" if kind == "bpf" else "probes")
        found |= {f"{kind}/{path.relative_to(folder)}": path for path in sorted(folder.glob(pattern))}
    return found


def digest(files: dict[str, Path]) -> str:
    """Return the digest of the content of `files` and of their names."""
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return total.hexdigest()[:_DIGEST_DIGITS]


def copy_of(root: Path, copies: Path = COPIES) -> Path | None:
    """Return root's copy of the code at `root`, or None where there is none that only root can change."""
    folder = copies / digest(parts(root))
    if not folder.is_dir() or foreign_code(folder) is not None:
        return None
    return folder


def foreign_code(root: Path) -> str | None:
    """Return who but root could change the code or data that is elevated from `root`, or None where nobody can."""
    folders = [root / "netdiag", *(folder for name in ("bpf", "probes") if (folder := root / name).is_dir())]
    for folder in folders:
        reason = foreign_hand(folder)
        if reason is not None:
            return reason
        for place, below, names in os.walk(folder):
            for path in (Path(place, name) for name in (*below, *names)):
                reason = foreign_entry(path)
                if reason is not None:
                    return reason
    return None


def install(root: Path | None = None, copies: Path = COPIES) -> Path:
    """Make root's copy of the code at `root` (the running code) and return its folder; the same copy is made once.

    Folders become 0755 and files 0644, all of them root's. Raises NotPermitted for anybody but root.
    """
    if os.geteuid() != 0:
        raise NotPermitted("only root can install the recorder", hint="sudo netdiag doctor --install-recorder")
    root = code_root() if root is None else root
    files = parts(root)
    target = copies / digest(files)
    if target.is_dir() and foreign_code(target) is None and digest(_laid_out(target, files)) == target.name:
        return target
    copies.mkdir(mode=0o755, parents=True, exist_ok=True)
    reason = foreign_hand(copies)
    if reason is not None:
        raise NotPermitted(f"root's copy of the recorder would not be safe: {reason}")
    fresh = copies / f".{target.name}-{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    _fill(fresh, files)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return target


def _fill(folder: Path, files: dict[str, Path]) -> None:
    """Write copies of `files` below `folder`, with bytecode beside the modules."""
    _make(folder)
    for name, source in files.items():
        copy = folder / name
        for parent in reversed(copy.relative_to(folder).parents):
            _make(folder / parent)
        copy.write_bytes(source.read_bytes())
        copy.chmod(0o644)
    for name in files:
        if name.endswith(".py"):
            written = Path(py_compile.compile(str(folder / name), doraise=True) or "")
            written.parent.chmod(0o755)
            written.chmod(0o644)


def _make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    os.chown(folder, 0, 0)


def _laid_out(folder: Path, files: dict[str, Path]) -> dict[str, Path]:
    """Return the same parts as they lie in a copy; without those that it lacks."""
    return {name: folder / name for name in files if (folder / name).is_file()}


def _imported(root: Path) -> set[Path]:
    """Return the files of all netdiag modules that the entry imports, with the packages on the way."""
    found: set[Path] = set()
    waiting = [_ENTRY]
    while waiting:
        name = waiting.pop()
        path = _file_of(root, name)
        if path is None or path in found:
            continue
        found.add(path)
        waiting += [name.rpartition(".")[0], *_imports(ast.parse(path.read_bytes()))]
    return found


def _file_of(root: Path, name: str) -> Path | None:
    """Return the file of a netdiag module; None for another library's, and for a name inside a module."""
    if name.partition(".")[0] != "netdiag":
        return None
    path = root.joinpath(*name.split("."))
    candidates = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield every name that could be a module in the import statements of `tree`, those for typing left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from _imports(node)


if __name__ == "__main__":
    install()

# SPDX-License-Identifier: Apache-2.0
"""Build hook: a wheel or sdist without the compiled kernel programs would install and then trace nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["ObjectsPresent"]

ARCHITECTURES = ("arm64", "x86_64")


class ObjectsPresent(BuildHookInterface[Any]):
    """Refuses to build while an object is missing; an editable install may lack them, the checkout builds its own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        """Check the objects of all kernel programs; raise FileNotFoundError with the remedy."""
        if version == "editable":
            return
        folder = Path(self.root) / "bpf"
        wanted = [
            folder / "build" / architecture / source.name.replace(".bpf.c", ".bpf.o")
            for source in folder.glob("*.bpf.c")
            for architecture in ARCHITECTURES
        ]
        missing = [path.relative_to(self.root).as_posix() for path in wanted if not path.is_file()]
        if missing:
            raise FileNotFoundError(f"not built: {', '.join(missing)}; run make -C bpf first (needs clang and llvm)")

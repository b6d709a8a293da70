# SPDX-License-Identifier: Apache-2.0
"""Where the shipped data lies: kernel objects, probe manifests and report texts.

The only module that looks at its own path. It imports the standard library only, because the recorder uses it.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Literal, TypeAlias

from netdiag.errors import Unsupported

__all__ = ["Kind", "bpf_object", "data_dir"]

Kind: TypeAlias = Literal["bpf", "probes", "reports"]
"""A folder of data beside the code, called the same in the checkout and in the wheel."""

_PACKAGE = Path(__file__).resolve().parent
_OBJECT_FOLDERS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def data_dir(kind: Kind) -> Path:
    """Return the folder of `kind`: the one inside the installed package, else the one of the checkout.

    Raises `Unsupported` when neither exists.
    """
    for parent in (_PACKAGE / "_data", _PACKAGE.parent):
        folder = parent / kind
        if folder.is_dir():
            return folder
    message = f"the data folder '{kind}' is missing: it is neither in {_PACKAGE} nor beside it"
    raise Unsupported(message, hint="reinstall netdiag-ebpf, or run it from a complete checkout")


def bpf_object(name: str) -> Path:
    """Return the compiled kernel program `name` (for example `tcp`) for this machine's processor.

    Raises `Unsupported` when there are none for the processor, or when it was not built.
    """
    machine = platform.machine()
    architecture = _OBJECT_FOLDERS.get(machine.lower())
    if architecture is None:
        message = f"there are no kernel programs for the processor '{machine}'"
        raise Unsupported(message, hint="netdiag traces on x86-64 and arm64; saved recordings can be analysed anywhere")
    path = data_dir("bpf") / "build" / architecture / f"{name}.bpf.o"
    if not path.is_file():
        message = f"the kernel program '{name}' was not built for {architecture}: {path} is missing"
        raise Unsupported(message, hint="run scripts/setup in the checkout, or reinstall netdiag-ebpf")
    return path

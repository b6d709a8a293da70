# SPDX-License-Identifier: Apache-2.0
"""Builds the programs that the measurements need, and the headers that bcc wants where the kernel has none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["Programs", "bcc_environment", "build"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Programs:
    """Paths of what was built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workload = folder / "workload"
        self.generate = folder / "generate"
        self.consume = folder / "consume"
        self.records = folder / "gen.bpf.o"
        self.client = HERE / "client.py"
        self.bcc_reader = HERE / "bcc-reader"


def build(folder: Path) -> Programs:
    """Compile all C sources into `folder`; raises CalledProcessError with the compiler's words shown."""
    programs = Programs(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for target in (programs.workload, programs.generate, programs.consume):
        source = HERE / f"{target.name}.c"
        subprocess.run(["cc", "-O2", "-Wall", "-o", target, source, "-lbpf"], check=True)
    flags = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", f"-I{ROOT / 'bpf' / 'include'}", "-idirafter", "/usr/include"]
    subprocess.run([_clang(), *flags, "-c", HERE / "gen.bpf.c", "-o", programs.records], check=True)
    return programs


def _clang() -> str:
    names = ("clang", *(f"clang-{version}" for version in range(19, 13, -1)))
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise FileNotFoundError("clang is missing (Debian: clang)")
    return found


def bcc_environment(folder: Path) -> dict[str, str]:
    """Return what bcc must be told about kernel headers: nothing where it finds those of the running kernel.

    Else the newest headers of the distribution, whose two halves are joined below `folder` by links.
    """
    if "BCC_KERNEL_SOURCE" in os.environ or Path(f"/lib/modules/{os.uname().release}/build").exists():
        return {}
    halves = sorted(Path("/usr/src").glob("linux-headers-*-common"))
    if not halves:
        return {}
    joined = folder / f"{halves[-1].name}-joined"
    if not joined.exists():
        joined.mkdir()
        own = sorted(Path("/usr/src").glob(f"{halves[-1].name.removesuffix('common')}*"))
        for half in (halves[-1], *(path for path in own if path != halves[-1])):
            subprocess.run(["cp", "-rsf", f"{half}/.", joined], check=False, stderr=subprocess.DEVNULL)
    return {"BCC_KERNEL_SOURCE": str(joined)}

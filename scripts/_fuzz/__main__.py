# SPDX-License-Identifier: Apache-2.0
"""Feeds each parser so many inputs, one process a parser, and prints what came of it; ends with 1 after a fault.

With atheris (a coverage-guided fuzzer, `pip install atheris`) inputs are those that reach new lines; without, mutations
of good inputs. `--engine` chooses one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LONGEST_S = 10
"""For one input: more is a hang."""
MOST_MB = 1024


def main() -> int:
    """Run what the command line says."""
    words = argparse.ArgumentParser(prog="scripts/fuzz guided", description=__doc__)
    words.add_argument("count", type=int, nargs="?", default=1_000_000, help="inputs per parser (1,000,000)")
    words.add_argument("parsers", nargs="*", help="which (all)")
    words.add_argument("--engine", choices=("atheris", "mutations"))
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--seconds", type=int, default=0, help="at most so long per parser")
    words.add_argument("--corpus", type=Path, help="keep what atheris finds there, and go on from it")
    words.add_argument("--alone", help=argparse.SUPPRESS)
    said = words.parse_args()
    engine = said.engine or ("atheris" if importlib.util.find_spec("atheris") else "mutations")
    if said.alone:
        (_atheris if engine == "atheris" else _mutations)(said.alone, said)
        return 0
    from scripts._fuzz.targets import TARGETS

    unknown = set(said.parsers) - set(TARGETS)
    if unknown:
        words.error(f"no parser {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    faults = [name for name in said.parsers or TARGETS if not _run(name, engine, said)]
    if faults:
        print(f"faults in {', '.join(faults)}")
    return 1 if faults else 0


def _run(name: str, engine: str, said: argparse.Namespace) -> bool:
    command = [sys.executable, "-m", "scripts._fuzz", str(said.count), "--alone", name, "--engine", engine]
    command += ["--seed", str(said.seed), "--seconds", str(said.seconds)]
    if said.corpus:
        command += ["--corpus", str(said.corpus)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    took = time.monotonic() - began
    told = done.stdout + done.stderr
    runs = re.findall(r"(?:Done|number_of_executed_units:) *(\d+)", told)
    ran = int(runs[-1]) if runs else 0
    good = done.returncode == 0 and ran > 0
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024  # of the largest so far
    verdict = "no fault" if good else "FAULT"
    print(f"{name:<14} {ran:>9,} inputs in {took:6.0f} s by {engine}, at most {peak} MB: {verdict}")
    if not good:
        print("\n".join(told.splitlines()[-25:]))
    sys.stdout.flush()
    return good


def _mutations(name: str, said: argparse.Namespace) -> None:
    from scripts._fuzz.targets import TARGETS
    from tests.fakes.mangle import mangled

    target, ran, ends = TARGETS[name], 0, time.monotonic() + (said.seconds or 1e9)
    for data in mangled([seed for seed in target.seeds() if seed], said.count, seed=said.seed):
        began = time.process_time()
        target.one(data[: target.longest])
        if time.process_time() - began > LONGEST_S:
            raise TimeoutError(data[: target.longest].hex())
        ran += 1
        if time.monotonic() > ends:
            break
    print(f"Done {ran}")


def _atheris(name: str, said: argparse.Namespace) -> None:
    atheris: Any = importlib.import_module("atheris")  # optional, and without types

    with atheris.instrument_imports(include=["netdiag"]):
        from scripts._fuzz.targets import TARGETS
    target = TARGETS[name]
    with contextlib.ExitStack() as stack:
        if said.corpus:
            folder = said.corpus / name
            folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for seed in target.seeds():
            data = seed[: target.longest]
            (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
        limits = [f"-runs={said.count}", f"-max_len={target.longest}", f"-timeout={LONGEST_S}", f"-seed={said.seed}"]
        limits += [f"-rss_limit_mb={MOST_MB}", "-print_final_stats=1", "-verbosity=0", "-artifact_prefix=" + os.devnull]
        if said.seconds:
            limits.append(f"-max_total_time={said.seconds}")
        random.seed(said.seed)
        atheris.Setup([sys.argv[0], *limits, str(folder)], target.one)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())

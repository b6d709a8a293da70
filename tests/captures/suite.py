# SPDX-License-Identifier: Apache-2.0
"""Captures with known truth: made from real traffic, spoiled by seed, and compared with servers and tshark. Needs root.

python -m tests.captures.suite [--count N] [--seed N] [--keep FOLDER] [SCENE…]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.captures.compare import Difference, compare
from tests.captures.dissector import dissect
from tests.captures.mangler import WAYS, load, mangle
from tests.captures.scenes import SCENES
from tests.captures.world import World

__all__ = ["compared", "make", "plan"]

COUNT = 320


def make(folder: Path, names: Sequence[str]) -> None:
    """Play the scenes: of each a capture, the truth, and the key log where there is one."""
    with tempfile.TemporaryDirectory() as place, World(Path(place)) as world:
        for name in names:
            world.said()
            with world.captured(folder / f"{name}.pcap"):
                extra = SCENES[name](world, folder / f"{name}.keys")
            time.sleep(0.05)  # servers log when an answer is out
            (folder / f"{name}.json").write_text(json.dumps([*world.said(), *(extra or [])]))


def plan(names: Sequence[str], count: int, seed: int) -> list[tuple[str, str, int]]:
    """Return scene, way and seed of each capture: every scene as it is, then drawn ones."""
    draw = random.Random(seed)
    found = [(name, "same", seed) for name in names]
    pairs = [(name, way) for name in names for way in WAYS if way != "same"]
    turn = seed
    while len(found) < count and pairs:
        draw.shuffle(pairs)
        found += [(name, way, turn) for name, way in pairs]
        turn += 1
    return found[:count]


def compared(folder: Path, wanted: Sequence[tuple[str, str, int]]) -> Iterator[tuple[str, list[Difference]]]:
    """Yield the name of each capture and all differences."""
    real: dict[str, dict[tuple[int, int], int]] = {}
    for name, way, seed in wanted:
        if name not in real:
            streams = dissect(folder / f"{name}.pcap")
            real[name] = {(one.client_port, one.server_port): sum(one.resent.values()) for one in streams}
        keys = folder / f"{name}.keys"
        held = keys.read_bytes() if keys.exists() else b""
        mangled = mangle(load(folder / f"{name}.pcap"), way, seed, held)
        path = folder / f"{name}-{way}-{seed}"
        path.write_bytes(mangled.content)
        for ends, count in real[name].items():
            mangled.resent[ends] = mangled.resent.get(ends, 0) + count
        yield path.name, compare(path, json.loads((folder / f"{name}.json").read_text()), mangled, keys)
        path.unlink()


def main(words: Sequence[str]) -> int:
    """Make, spoil and compare; 1 where a difference is left without an explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where the captures of the scenes are put, and taken from if there")
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []], metavar="SCENE")
    options = parser.parse_args(words)
    names = options.scenes or list(SCENES)
    with tempfile.TemporaryDirectory() as place:
        folder = options.keep or Path(place)
        folder.mkdir(exist_ok=True)
        missing = [name for name in names if not (folder / f"{name}.json").exists()]
        if missing:
            make(folder, missing)
        reasons: Counter[str] = Counter()
        unexplained = done = 0
        for name, differences in compared(folder, plan(names, options.count, options.seed)):
            done += 1
            for one in differences:
                reasons[f"{one.field}: {one.why or 'UNEXPLAINED'}"] += 1
                if one.why is None:
                    unexplained += 1
                    sys.stdout.write(f"{name}: {one}\n")
    say = sys.stdout.write
    say(f"{done} captures of {len(names)} scenes, {unexplained} differences without an explanation\n")
    for reason, count in reasons.most_common():
        say(f"{count:6} {reason}\n")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

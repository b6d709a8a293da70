# SPDX-License-Identifier: Apache-2.0
"""The probes of one trace: their objects, rings, walks and counters, and what of them this kernel could not do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netdiag.ebpf.handover import Job, Loaded, load
from netdiag.ebpf.ring import Ring
from netdiag.ebpf.sampling import SAMPLED, Sampling
from netdiag.ebpf.syscall import Variables, in_netns, program_cost, walk
from netdiag.recorder.facts import monotonic_ns
from netdiag.recorder.functions import COPIES, NAMES, PLAIN, TLS
from netdiag.recorder.namespaces import Namespaces
from netdiag.recorder.uprobes import FunctionProbes
from netdiag.recording.format import StreamLayout

__all__ = ["ProbeSet"]

_SEED, _TICK, _FINAL = 1, 2, 3
_KNOWN_HZ = (100, 250, 300, 1000)
_ON_FUNCTIONS = {
    TLS: ("tls_enter", "tls_leave"),
    NAMES: ("name_enter", "name_leave"),
    PLAIN: ("plain_enter", "plain_leave"),
    COPIES: ("weights_copy_enter", "weights_copy_leave"),
}
"""Probe → its programs for the entries and the returns of functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Records of one kind, from ring to recording."""

    name: str
    number: int
    map: str
    recorded: bool
    to_front: bool
    layout: StreamLayout


class ProbeSet:
    """All probes of a trace, in the order of their manifests."""

    def __init__(self, *, names: list[str], target: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._names, self._target, self._options = names, target, options
        self._loaded: list[Loaded] = []
        self._variables: dict[str, Variables] = {}
        self._rings: list[tuple[Stream, Ring]] = []
        self._walks: dict[str, int] = {}
        self._first_look: tuple[int, int] | None = None
        self._namespaces = Namespaces()
        self._functions: FunctionProbes | None = None
        self._on_functions: dict[str, tuple[int, int]] = {}
        self._sampling: Sampling | None = None

    def load(self) -> None:
        """Load and attach all objects; the one of a probe that can't load leaves the others be, unless it is the last.

        Raises the netdiag error of the first one when none can be loaded.
        """
        self._loaded = load(lambda: prepare(self._names, self._target, self._options))
        for item in self._loaded:
            if "" not in item.failed:
                self._take_over(item)
        if self._on_functions:
            self._functions = FunctionProbes(self._on_functions)

    def _take_over(self, item: Loaded) -> None:
        self._variables[item.name] = Variables(item.places, item.sizes)
        self._walks.update(item.iterators)
        if SAMPLED in item.programs:
            self._sampling = Sampling(item.programs[SAMPLED])
        if item.name in _ON_FUNCTIONS:
            enter, leave = (item.programs.get(name) for name in _ON_FUNCTIONS[item.name])
            if enter is not None and leave is not None:
                self._on_functions[item.name] = (enter, leave)
        for about in item.about["streams"]:
            layout = StreamLayout.from_json(about["layout"])
            fd, size = item.maps[about["map"]]
            stream = Stream(
                name=layout.name,
                number=layout.stream,
                map=about["map"],
                recorded=about["recorded"],
                to_front=about["to_front"],
                layout=layout,
            )
            self._rings.append((stream, Ring(fd, size, layout.size)))

    def rings(self) -> list[Ring]:
        """Return all rings, to wait for."""
        return [ring for _, ring in self._rings]

    def streams(self) -> list[tuple[Stream, Ring]]:
        """Return all streams with their rings, to drain."""
        return self._rings

    def seed(self, drain: Callable[[], None], about_to_run: tuple[int, int] | None = None) -> None:
        """Find the sockets that exist already, in every network namespace that the targets live in.

        `about_to_run`: a process that waits, and a descriptor of the program that it will run, which is taken over.
        """
        self._namespaces.note_all(self._pids())
        if self._functions is not None:
            self._functions.start(self._pids(), about_to_run)
        self._look(_SEED, drain)
        if self._sampling is not None:
            self._sampling.start()

    def follow(self, layout: StreamLayout, runs: Iterable[memoryview]) -> None:
        """Take note of new records about processes: probes on functions follow them."""
        if self._functions is not None:
            self._functions.follow(layout, runs)

    def libraries(self) -> Iterable[dict[str, Any]]:
        """Yield a fact for each TLS library that was found in a process since the last time."""
        return () if self._functions is None else self._functions.news()

    def stop(self) -> None:
        """Follow processes no longer."""
        if self._sampling is not None:
            self._sampling.close()
        if self._functions is not None:
            self._functions.stop()

    def close(self) -> None:
        """Take probes on functions away all at once, which the end of this process would do one by one."""
        if self._functions is not None:
            self._functions.close()

    def meet(self, pid: int) -> None:
        """Look from now on at the network namespace that a new process lives in, too."""
        self._namespaces.note(pid)

    def tick(self, drain: Callable[[], None]) -> None:
        """Flush what waits in the storage of idle sockets."""
        self._look(_TICK, drain)

    def final_look(self, drain: Callable[[], None]) -> None:
        """Write a last record of every socket that lives."""
        self._namespaces.note_all(self._pids())
        self._look(_FINAL, drain)

    def _look(self, mode: int, drain: Callable[[], None]) -> None:
        if mode == _FINAL and "weights_look" in self._walks:
            self._variables["weights"].set("nd_weights_end", 1)
            walk(self._walks["weights_look"], drain)
        tcp = self._variables.get("tcp")
        if tcp is None or "look" not in self._walks:
            return
        tcp.set("nd_look_began", monotonic_ns())
        tcp.set("nd_look_mode", mode)
        if mode != _TICK and "holders" in self._walks:
            self._find_holders(tcp, drain)
        walk(self._walks["look"], drain)
        for path in self._namespaces.paths():
            with in_netns(path) as entered:
                if entered:
                    walk(self._walks["look"], drain)
        if self._first_look is None:
            self._first_look = self._jiffies()

    def _pids(self) -> list[int]:
        return list(self._target.get("pids") or [])

    def _find_holders(self, tcp: Variables, drain: Callable[[], None]) -> None:
        before = tcp.get("nd_pidns_level")
        walk(self._walks["holders"], drain)
        level = tcp.get("nd_pidns_level")
        if level != before:  # only now the programs know which numbers this process sees
            for variables in self._variables.values():
                if "nd_pidns_level" in variables:  # not every probe looks at processes
                    variables.set("nd_pidns_level", level)
            walk(self._walks["holders"], drain)

    def _jiffies(self) -> tuple[int, int]:
        tcp = self._variables["tcp"]
        return tcp.get("nd_look_time"), tcp.get("nd_look_jiffies")

    def hz(self) -> int | None:
        """Return the kernel's jiffies a second, from two looks at least 40 ms apart; None when they were not."""
        if self._first_look is None:
            return None
        now = self._jiffies()
        elapsed_s = (now[0] - self._first_look[0]) / 1e9
        if elapsed_s < 0.04:
            return None
        measured = (now[1] - self._first_look[1]) / elapsed_s
        return min(_KNOWN_HZ, key=lambda hz: abs(hz - measured))

    def losses(self) -> dict[str, tuple[int, int]]:
        """Return records written and records lost for want of room, per stream, as the kernel counted them."""
        counts: dict[str, tuple[int, int]] = {}
        for stream, _ in self._rings:
            holders = [v for v in self._variables.values() if f"{stream.map}_seen" in v]
            seen = sum(v.get(f"{stream.map}_seen") for v in holders)
            lost = sum(v.get(f"{stream.map}_lost") for v in holders)
            counts[stream.name] = (seen, lost)
        return counts

    def cost(self) -> list[dict[str, int | str]]:
        """Return runs and nanoseconds of every program."""
        return [cost for item in self._loaded for cost in program_cost(item.programs)]

    def coverage(self) -> dict[str, Any]:
        """Return the state of each probe: attached, partial (some programs could not be), unavailable."""
        states = [_state(item) for item in self._loaded]
        reasons = self._functions.reasons() if self._functions is not None else []
        if self._sampling is not None and self._sampling.reason:
            states = [s | _unsampled(self._sampling.reason) if s["name"] == "weights" else s for s in states]
        for state in states:
            if state["name"] == "ssl" and reasons:
                state |= {"state": "partial", "reason": "; ".join(reasons)}
        return {"probes": states, "tls_libraries": [], "unobservable": []}


def _state(item: Loaded) -> dict[str, str | None]:
    if not item.failed:
        return {"name": item.name, "state": "attached", "reason": None, "remedy": None}
    gives, required = item.about["gives"], {"", *item.about["required"]}
    first = next(iter(item.failed.values()))
    missing = "; ".join(_unique(gives[name] for name in item.failed if name in gives))
    return {
        "name": item.name,
        "state": "unavailable" if required & set(item.failed) else "partial",
        "reason": first.message + (f" (missing: {missing})" if missing else ""),
        "remedy": first.hint,
    }


def _unsampled(reason: str) -> dict[str, str | None]:
    return {"state": "partial", "reason": f"{reason} (missing: what threads did while they ran)"}


def prepare(names: list[str], target: Mapping[str, Any], options: Mapping[str, Any]) -> Job:
    """Return what is to be loaded; runs in the loading child, with all that it imports."""
    from netdiag.recorder.plan import job

    return job(names, target, options)


def _unique(values: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(values))

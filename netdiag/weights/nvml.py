# SPDX-License-Identifier: Apache-2.0
"""Looks at GPUs ten times a second by NVML, in a process of its own: a driver that hangs must not hang a trace.

Run as `python -m netdiag.weights.nvml`: JSON lines on standard output until standard input ends. Memory and cumulative
counters are asked each time, processes once a second (the list holds a lock of the driver for milliseconds), and the
sampled PCIe throughput never: that call sleeps. All calls are made by one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Watcher", "main"]

PERIOD_S = 0.1
PROCESSES_S = 1.0
_TX, _RX, _REPLAY = 197, 198, 94
"""NVML_FI_DEV_PCIE_COUNT_TX_BYTES, …_RX_BYTES (host to device), …_REPLAY_COUNTER."""
_EVENTS = {0x1: "single-bit ECC", 0x2: "double-bit ECC", 0x8: "Xid"}
_GONE = (15,)
"""NVML_ERROR_GPU_IS_LOST."""
_DENIED = (4,)
_NEVER = (3, 13, *_DENIED)
"""Not supported, function not found (an older driver), no permission: asked once."""


@dataclass(slots=True)
class Watcher:
    """The looks at all GPUs; `say` gets one dictionary each."""

    nvml: Any
    say: Callable[[dict[str, Any]], None]
    clock: Callable[[], int] = time.monotonic_ns
    doing: tuple[str, int] | None = None
    """Name of the NVML function that runs, and since when."""
    spent_ns: int = 0
    _refused: set[tuple[int, str]] = field(default_factory=set)
    _lost: set[int] = field(default_factory=set)
    _handles: list[Any] = field(default_factory=list)
    _events: Any = None

    def call(self, name: str, *arguments: Any, gpu: int = -1) -> Any:
        """Return what an NVML function returns, None where it cannot.

        What is refused is not asked again; a lost GPU and a missing permission are told, once.
        """
        if (gpu, name) in self._refused or gpu in self._lost:
            return None
        began = self.clock()
        self.doing = (name, began)
        try:
            return getattr(self.nvml, name)(*arguments)
        except self.nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code in _NEVER:
                self._refused.add((gpu, name))
            if code in _GONE:
                self._lost.add(gpu)
            if code in (*_DENIED, *_GONE):
                self.say({"gpu": gpu, "trouble": str(error), "call": name, "code": code, "at_ns": self.clock()})
            return None
        except AttributeError:
            self._refused.add((gpu, name))
            return None
        finally:
            self.doing = None
            self.spent_ns += self.clock() - began

    def start(self) -> bool:
        """Begin; False where there is no driver: the reason was said."""
        began = self.clock()
        self.doing = ("nvmlInit", began)
        try:
            self.nvml.nvmlInit()
        except self.nvml.NVMLError as error:
            self.say({"gpu": -1, "trouble": str(error), "call": "nvmlInit", "code": getattr(error, "value", None)})
            return False
        finally:
            self.doing = None
        self.say({"driver": _text(self.call("nvmlSystemGetDriverVersion"))})
        for index in range(self.call("nvmlDeviceGetCount") or 0):
            handle = self.call("nvmlDeviceGetHandleByIndex", index, gpu=index)
            self._handles.append(handle)
            if handle is not None:
                self._introduce(index, handle)
        return True

    def _introduce(self, index: int, handle: Any) -> None:
        mig = self.call("nvmlDeviceGetMigMode", handle, gpu=index)
        self.say(
            {
                "gpu": index,
                "name": _text(self.call("nvmlDeviceGetName", handle, gpu=index)),
                "mig": bool(mig and mig[0]),
                "link_most": [
                    self.call("nvmlDeviceGetMaxPcieLinkGeneration", handle, gpu=index),
                    self.call("nvmlDeviceGetMaxPcieLinkWidth", handle, gpu=index),
                ],
            }
        )
        if self._events is None:
            self._events = self.call("nvmlEventSetCreate")
        if self._events is not None:
            self.call("nvmlDeviceRegisterEvents", handle, sum(_EVENTS), self._events, gpu=index)

    def look(self, *, processes: bool) -> None:
        """Look at all GPUs once."""
        for index, handle in enumerate(self._handles):
            if handle is not None and index not in self._lost:
                self._look(index, handle, processes=processes)
        self._hear()

    def _look(self, index: int, handle: Any, *, processes: bool) -> None:
        found = self._memory(index, handle)
        row: dict[str, Any] = {"gpu": index, "at_ns": self.clock()}
        if found is not None:
            row |= {"used": int(found.used), "free": int(found.free), "total": int(found.total)}
        values = self.call("nvmlDeviceGetFieldValues", handle, [_TX, _RX, _REPLAY], gpu=index)
        for name, value in zip(("tx", "rx", "replays"), values or (), strict=False):
            if value.nvmlReturn == 0:
                row[name] = int(value.value.ullVal if value.valueType in (3, 2) else value.value.uiVal)
        if processes:
            row["link"] = [
                self.call("nvmlDeviceGetCurrPcieLinkGeneration", handle, gpu=index),
                self.call("nvmlDeviceGetCurrPcieLinkWidth", handle, gpu=index),
            ]
            reasons = self.call("nvmlDeviceGetCurrentClocksEventReasons", handle, gpu=index)
            if reasons is None:
                reasons = self.call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, gpu=index)
            row["reasons"] = reasons
            held = self.call("nvmlDeviceGetComputeRunningProcesses", handle, gpu=index)
            if held is not None:
                row["processes"] = [[int(one.pid), one.usedGpuMemory] for one in held]
        self.say(row)

    def _memory(self, index: int, handle: Any) -> Any:
        """Return the newer structure, which counts what the driver reserves apart; else the older one."""
        version = getattr(self.nvml, "nvmlMemory_v2", None)
        if version is not None:
            found = self.call("nvmlDeviceGetMemoryInfo", handle, version, gpu=index) if not self._old(index) else None
            if found is not None:
                return found
        return self._old_memory(index, handle)

    def _old(self, index: int) -> bool:
        return (index, "nvmlDeviceGetMemoryInfo") in self._refused

    def _old_memory(self, index: int, handle: Any) -> Any:
        if index in self._lost:
            return None
        began = self.clock()
        self.doing = ("nvmlDeviceGetMemoryInfo", began)
        try:
            return self.nvml.nvmlDeviceGetMemoryInfo(handle)
        except self.nvml.NVMLError as error:
            if getattr(error, "value", None) in _GONE:
                self._lost.add(index)
                self.say({"gpu": index, "trouble": str(error), "code": 15, "at_ns": self.clock()})
            return None
        finally:
            self.doing = None
            self.spent_ns += self.clock() - began

    def _hear(self) -> None:
        if self._events is None:
            return
        began = self.clock()
        self.doing = ("nvmlEventSetWait_v2", began)
        try:
            for _ in range(16):
                event = self.nvml.nvmlEventSetWait_v2(self._events, 0)
                kind = _EVENTS.get(int(event.eventType), f"event {int(event.eventType):#x}")
                row = {"event": kind, "data": int(event.eventData), "at_ns": self.clock()}
                of = next((at for at, one in enumerate(self._handles) if _same(one, event.device)), None)
                self.say(row if of is None else {"gpu": of, **row})
        except self.nvml.NVMLError:  # a timeout: nothing happened
            return
        finally:
            self.doing = None
            self.spent_ns += self.clock() - began


def _same(one: Any, other: Any) -> bool:
    """Tell whether two handles are of the same GPU: pointers of the driver's, so their bytes are an address."""
    return bool(one and other) and bytes(one) == bytes(other)


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def main() -> int:
    """Look until standard input ends."""
    lock = threading.Lock()

    def say(row: dict[str, Any]) -> None:
        with lock, contextlib.suppress(OSError, ValueError):
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()

    try:
        import pynvml
    except ImportError:
        say({"gpu": -1, "trouble": "nvidia-ml-py is not installed: pip install netdiag-ebpf[gpu]", "code": None})
        return 0
    watcher = Watcher(pynvml, say)
    threading.Thread(target=_looking, args=(watcher,), daemon=True).start()
    for _ in _until_closed():
        doing = watcher.doing
        if doing is not None and time.monotonic_ns() - doing[1] > 1_000_000_000:
            say({"hung": doing[0], "since_ns": doing[1], "at_ns": time.monotonic_ns()})
    say({"spent_ns": watcher.spent_ns})
    with lock:
        os._exit(0)  # a thread inside the driver may never come back


def _until_closed() -> Iterator[None]:
    """Yield about twice a second until standard input ends."""
    import select

    while True:
        ready, _, _ = select.select([sys.stdin], [], [], 0.5)
        if ready and not os.read(sys.stdin.fileno(), 64):
            return
        yield


def _looking(watcher: Watcher) -> None:
    if not watcher.start():
        return
    next_processes = 0.0
    while True:
        now = time.monotonic()
        due = now >= next_processes
        watcher.look(processes=due)
        if due:
            next_processes = now + PROCESSES_S
        time.sleep(max(0.0, PERIOD_S - (time.monotonic() - now)))


if __name__ == "__main__":
    sys.exit(main())

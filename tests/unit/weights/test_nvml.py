# SPDX-License-Identifier: Apache-2.0
"""What is asked of NVML and what is told of it. The binding is a fake here; tests/integration has the real one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from netdiag.weights.nvml import Watcher


class Error(Exception):
    def __init__(self, value):
        super().__init__(f"error {value}")
        self.value = value


class Nvml:
    """One GPU; `errors` are codes by the name of a function, and `asked` counts calls."""

    NVMLError = Error

    def __init__(self, errors=(), **answers):
        self.errors, self.asked = dict(errors), {}
        self.answers = {
            "nvmlInit": None,
            "nvmlSystemGetDriverVersion": b"580\xff",
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "A",
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=1, free=2, total=3),
            **answers,
        }

    def __getattr__(self, name):
        if name not in self.answers and name not in self.errors:
            raise AttributeError(name)

        def call(*_arguments):
            self.asked[name] = self.asked.get(name, 0) + 1
            if name in self.errors:
                raise Error(self.errors[name])
            return self.answers[name]

        return call


def watched(nvml, looks=1, *, processes=False):
    rows: list[dict[str, Any]] = []
    watcher = Watcher(nvml, rows.append, clock=iter(range(0, 10**9, 1_000)).__next__)
    if watcher.start():
        for _ in range(looks):
            watcher.look(processes=processes)
    return watcher, rows


def troubles(rows):
    return [row["trouble"] for row in rows if "trouble" in row]


def test_a_gpu_is_introduced_and_looked_at():
    watcher, rows = watched(Nvml())
    assert rows[0] == {"driver": "580\\xff"}
    assert rows[1] == {"gpu": 0, "name": "A", "mig": False, "link_most": [5, 16]}
    assert (rows[2]["used"], rows[2]["free"], rows[2]["total"]) == (1, 2, 3)
    assert "tx" not in rows[2]
    assert watcher.spent_ns > 0
    assert watcher.doing is None


def test_without_a_driver_the_reason_is_said_and_nothing_is_asked():
    nvml = Nvml({"nvmlInit": 9})
    _, rows = watched(nvml)
    assert troubles(rows) == ["error 9"]
    assert nvml.asked == {"nvmlInit": 1}


def test_what_is_not_supported_is_asked_once_and_silent():
    nvml = Nvml({"nvmlDeviceGetFieldValues": 3})
    _, rows = watched(nvml, looks=5)
    assert nvml.asked["nvmlDeviceGetFieldValues"] == 1
    assert troubles(rows) == []


def test_what_fails_by_chance_is_asked_again():
    nvml = Nvml({"nvmlDeviceGetFieldValues": 999})
    watched(nvml, looks=5)
    assert nvml.asked["nvmlDeviceGetFieldValues"] == 5


def test_a_missing_permission_is_told_once():
    nvml = Nvml({"nvmlDeviceGetComputeRunningProcesses": 4})
    _, rows = watched(nvml, looks=3, processes=True)
    assert troubles(rows) == ["error 4"]
    assert all("processes" not in row for row in rows)


def test_a_lost_gpu_is_told_once_and_left_alone():
    nvml = Nvml({"nvmlDeviceGetMemoryInfo": 15})
    _, rows = watched(nvml, looks=4)
    assert troubles(rows) == ["error 15"]
    assert nvml.asked["nvmlDeviceGetMemoryInfo"] == 1


def test_processes_are_listed_only_when_due():
    held = [SimpleNamespace(pid=7, usedGpuMemory=None)]
    nvml = Nvml(nvmlDeviceGetComputeRunningProcesses=held)
    _, rows = watched(nvml, looks=3)
    assert "nvmlDeviceGetComputeRunningProcesses" not in nvml.asked
    _, rows = watched(nvml, processes=True)
    assert rows[-1]["processes"] == [[7, None]]


def test_a_counter_that_has_no_value_is_left_out():
    def value(code, kind, number):
        return SimpleNamespace(nvmlReturn=code, valueType=kind, value=SimpleNamespace(ullVal=number, uiVal=-1))

    values = [value(0, 3, 5), value(3, 3, 6), value(0, 1, 7)]
    _, rows = watched(Nvml(nvmlDeviceGetFieldValues=values))
    assert (rows[-1]["tx"], rows[-1]["replays"]) == (5, -1)
    assert "rx" not in rows[-1]

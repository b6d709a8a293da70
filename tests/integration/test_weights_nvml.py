# SPDX-License-Identifier: Apache-2.0
"""The looks at GPUs, by the real nvidia-ml-py on a compiled library that plays scenes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from netdiag.weights.gpus import Child, claims, gpus_of, phases_of, to_json

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (the extra `gpu`)")
if shutil.which("cc") is None:
    pytest.skip("no C compiler", allow_module_level=True)

SOURCE = Path(__file__).resolve().parents[1] / "fakes" / "weights" / "nvml.c"
GIB = 1 << 30


@pytest.fixture(scope="module", params=["new", "old"])
def library(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    flags = ["-DOLD"] if request.param == "old" else []
    out = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", out, SOURCE], check=True, timeout=60)
    return folder


def watched(folder, scene, seconds):
    began = time.monotonic_ns()
    child = Child({**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": scene})
    time.sleep(seconds)
    rows = child.stop()
    return (*gpus_of(rows, began), rows)


def codes(gpus):
    return {finding.code for finding in claims(gpus)}


def test_a_ramp_is_a_curve_and_no_cause(library):
    (gpu,), missing, rows = watched(library, "ramp", 2.0)
    assert (gpu.name, gpu.driver, gpu.mig, gpu.trouble, missing) == ("Fake H200", "580.95", False, None, [])
    used = [sample[1] for sample in gpu.samples]
    assert used[-1] - used[0] == pytest.approx(8 * GIB, rel=0.05)
    assert gpu.counters[-1][2] - gpu.counters[0][2] == pytest.approx(8 * GIB, rel=0.05)
    assert 4711 in gpu.processes
    assert codes([gpu]) == set()
    assert "weights" in {phase["name"] for phase in phases_of(gpu)}
    assert rows[-1]["spent_ns"] < 0.02 * 2e9
    assert to_json(gpu)["total_bytes"] == 16 * GIB


def test_the_kv_cache_is_a_step_that_leaves_little(library):
    (gpu,), _, _ = watched(library, "kv", 2.4)
    names = [phase["name"] for phase in phases_of(gpu)]
    assert names.index("weights") < names.index("KV cache")
    assert codes([gpu]) == {"gpu.memory-headroom"}


def test_a_slow_leak_is_neither_weights_nor_a_cache(library):
    (gpu,), _, _ = watched(library, "leak", 1.5)
    assert "KV cache" not in {phase["name"] for phase in phases_of(gpu)}
    assert codes([gpu]) == set()


@pytest.mark.parametrize(
    ("scene", "code"),
    [
        ("lost", "gpu.throttled-or-xid"),
        ("xid", "gpu.throttled-or-xid"),
        ("throttled", "gpu.throttled-or-xid"),
        ("narrow", "gpu.pcie-degraded"),
    ],
)
def test_the_scene(library, scene, code):
    (gpu,), _, _ = watched(library, scene, 2.2)
    assert codes([gpu]) == {code}


def test_an_error_is_told_of_the_gpu_that_had_it(library):
    (first, second), missing, _ = watched(library, "second", 1.5)
    assert (codes([first]), codes([second]), missing) == (set(), {"gpu.throttled-or-xid"}, [])


@pytest.mark.parametrize("scene", ["denied", "mig", "race"])
def test_what_may_not_be_asked_leaves_the_rest(library, scene):
    (gpu,), _, rows = watched(library, scene, 1.5)
    assert len(gpu.samples) >= 5
    assert gpu.mig == (scene == "mig")
    assert codes([gpu]) == set()
    refused = [row for row in rows if row.get("code") == 4]
    assert len(refused) == (scene == "denied")  # told and asked once


def test_a_call_that_hangs_is_named_and_holds_nobody_up(library):
    began = time.monotonic()
    (gpu,), missing, _ = watched(library, "hung", 3.0)
    assert time.monotonic() - began < 6
    assert any("nvmlDeviceGetMemoryInfo" in why for _, why in missing)
    assert gpu.trouble


def test_without_a_driver_it_says_so(library):
    gpus, missing, _ = watched(library, "nodriver", 1.0)
    assert gpus == []
    assert missing == [("GPU", "Driver Not Loaded")]


def test_without_a_library_it_says_so(tmp_path):
    gpus, ((what, why),), _ = watched(tmp_path, "ramp", 1.0)
    assert (gpus, what) == ([], "GPU")
    assert "Not Found" in why or "not found" in why

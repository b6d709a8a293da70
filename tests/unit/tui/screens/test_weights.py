# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import dashboards, goldens, loads

GPU = {"index": 0, "trouble": None, "samples": [{"at_ms": 100 * n, "used_bytes": n * 10**9} for n in range(14)]}
CURVE = [{"at_ms": 500.0 * n, "device_bytes": 4**n * 1000, "read_bytes": 0, "faults": 100 * n * n} for n in range(12)]


def _snapshot(**more: Any) -> Any:
    return dashboards.snapshot(weights={**loads.document(gpus=[GPU]), "curve": CURVE, **more})


@pytest.mark.golden
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_the_picture_is_the_one_that_was_looked_at(size, update_goldens):
    drawn = dashboards.picture(("m",), size, shown=_snapshot())
    goldens.compare(f"live/weights-{size[0]}x{size[1]}.svg", drawn, update=update_goldens)


def test_where_the_time_went_with_faults_and_memory():
    text = dashboards.press("m", shown=_snapshot(), size=(160, 50))
    assert "fault, blocked 80 %" in text
    assert "weights.readahead-small" in text
    assert "most 4,200/s" in text  # 100 * (11² - 10²) in half a second
    assert "0 B → 13.0 GB (NVML)" in text
    assert "m.safetensors" in text


def test_gpus_that_were_not_looked_at():
    document = loads.document(missing=[("GPU", "no NVIDIA driver on this machine")])
    assert "no NVIDIA driver" in dashboards.press("m", shown=dashboards.snapshot(weights=document))


def test_a_recording_without_a_load():
    assert "`netdiag weights` makes one" in dashboards.press("m")


def test_names_from_outside_are_made_safe():
    shown = _snapshot()
    shown.weights["files"][0]["path"] = f"/m/{dashboards.HOSTILE}"
    text = dashboards.press("m", shown=shown)
    assert "\x1b" not in text
    assert "\u202e" not in text

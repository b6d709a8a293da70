# SPDX-License-Identifier: Apache-2.0
"""Container and pod from the cgroup names of the usual managers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.processes.placement import Placement, placement

ID = "3f9a" * 16
UID = "0a1b2c3d-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    ("text", "container", "pod"),
    [
        ("0::/user.slice/user-1000.slice/session-2.scope\n", None, None),
        (f"0::/system.slice/docker-{ID}.scope\n", ID, None),
        (f"5:cpu:/docker/{ID}\n0::/docker/{ID}\n", ID, None),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", ID, None),
        (f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n", ID, UID),
        (f"0::/kubepods/besteffort/pod{UID}/{ID}\n", ID, UID),
        (f"0::/kubepods/pod{UID.replace('-', '')}/{ID}\n", ID, UID),
        (f"0::/kubelet/kubepods.slice/kubepods-pod{UID}.slice/cri-containerd:{ID}\n", ID, UID),
        (f"0::/\n1:name=systemd:/docker/{ID}\n", ID, None),
    ],
)  # fmt: skip
def test_the_managers_names_are_known(text, container, pod):
    found = placement(text)
    assert (found.container, found.pod) == (container, pod)
    assert found.cgroup == next(line[3:] for line in text.splitlines() if line.startswith("0::"))


def test_without_a_v2_tree_there_is_no_cgroup():
    assert placement("5:cpu:/\n") == Placement(cgroup=None, container=None, pod=None)


@given(st.text(max_size=200))
def test_any_text_gives_a_placement(text):
    assert isinstance(placement(text), Placement)

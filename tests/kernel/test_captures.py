# SPDX-License-Identifier: Apache-2.0
"""Captures of real servers and clients, as they are and spoiled: netdiag agrees with the servers' logs and with tshark.

A few of each kind; `scripts/truth-captures` makes hundreds.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.captures.mangler import WAYS
from tests.captures.scenes import SCENES
from tests.captures.suite import compared, make, plan

SOME = (
    "ticket-12", "curl-12-session-id", "curl-13-psk", "hello-retry", "http2-13", "plain-sse", "sse-proxied", "go-cache",
    "node-resumes", "python-kept", "suites-12", "key-update", "early-data", "failed",
)  # fmt: skip

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    lacking = [
        name for name in ("tshark", "tcpdump", "nginx", "node", "go", "openssl", "curl") if not shutil.which(name)
    ]
    if lacking and not (lacking == ["nginx"] and os.access("/usr/sbin/nginx", os.X_OK)):
        pytest.skip(f"not here: {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("captures")
    make(folder, SOME)
    return folder


def test_netdiag_agrees_with_servers_and_tshark(captures):
    wanted = plan(SOME, len(SOME) + 26, seed=3)
    seen, unexplained = 0, []
    for name, differences in compared(captures, wanted):
        seen += 1
        unexplained += [f"{name}: {one}" for one in differences if one.why is None]
    assert seen == len(wanted)
    assert unexplained == []


def test_a_plan_holds_every_scene_and_every_way_and_is_the_same_for_a_seed():
    names = list(SCENES)
    found = plan(names, 2000, seed=5)
    assert found == plan(names, 2000, seed=5)
    assert found != plan(names, 2000, seed=6)
    assert len(set(found)) == 2000
    assert {(name, way) for name, way, _ in found} == {(name, way) for name in names for way in WAYS}


def test_a_wrong_word_would_be_seen(captures):
    """The comparison itself: truth that is not so makes differences."""
    path = captures / "curl-13-psk.json"
    truth = json.loads(path.read_text())
    changed = [
        one | {"status": 503, "cipher": "TLS_AES_128_CCM_SHA256", "reused": ".", "sni": "other"} for one in truth
    ]
    path.write_text(json.dumps(changed))
    try:
        ((_, differences),) = compared(captures, [("curl-13-psk", "same", 1)])
    finally:
        path.write_text(json.dumps(truth))
    assert {one.field for one in differences if one.why is None} == {"requests", "cipher", "resumed", "sni"}

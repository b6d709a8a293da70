# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.route.detour import Detour
from netdiag.route.persistence import Check, confirm

SUSPECT = Detour(verdict="suspect", kind="boomerang")


def check(at, verdict="suspect", kind="boomerang"):
    return Check(at_s=at, verdict=verdict, kind=kind)


@pytest.mark.parametrize(
    ("earlier", "verdict"),
    [
        ([], "suspect"),
        ([check(0), check(300)], "confirmed"),
        ([check(1), check(300)], "suspect"),  # 599 s
        ([check(0)], "suspect"),
        ([check(0), check(100, "none", None), check(200, "none", None), check(300)], "confirmed"),
        ([check(0), check(100, "none", None), check(200, "none", None), check(300, "none", None)], "suspect"),
        ([check(0), check(100)] + [check(200 + at, "none", None) for at in range(4)], "suspect"),  # of the last five
        ([check(0, kind="steering"), check(300)], "suspect"),
        ([check(0, "confirmed"), check(300, "confirmed")], "confirmed"),
    ],
)
def test_three_of_five_over_ten_minutes(earlier, verdict):
    assert confirm(SUSPECT, earlier, 600.0).verdict == verdict


def test_nothing_else_is_confirmed():
    fine = Detour(verdict="none")
    assert confirm(fine, [check(0), check(300)], 600.0) == fine

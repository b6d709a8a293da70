# SPDX-License-Identifier: Apache-2.0
"""The package itself: its version, `load`, and that importing it costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import netdiag
from netdiag import loading


def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", netdiag.__version__)


def test_load_is_the_function_of_its_module():
    assert netdiag.load is loading.load


@pytest.mark.parametrize("name", ["Load", "nothing", "__path_of_nothing__"])
def test_other_names_are_refused_by_their_name(name):
    with pytest.raises(AttributeError, match=name):
        getattr(netdiag, name)


def test_load_is_imported_only_when_it_is_asked_for():
    code = (
        "import sys, netdiag; before = 'netdiag.loading' in sys.modules; netdiag.load;"
        "print(before, 'netdiag.loading' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "True"]

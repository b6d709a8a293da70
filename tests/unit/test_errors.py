# SPDX-License-Identifier: Apache-2.0
"""netdiag.errors: few kinds, each with the exit status that others rely on."""

from __future__ import annotations

import pytest

from netdiag import errors


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.NetdiagError, 1),
        (errors.UsageError, 2),
        (errors.NotPermitted, 4),
        (errors.Unsupported, 5),
        (errors.InputUnreadable, 6),
    ],
)
def test_each_kind_has_its_exit_status(kind, status):
    assert kind("what went wrong").exit_code == status


def test_there_are_few_kinds_and_all_are_public():
    kinds = {kind.__name__ for kind in errors.NetdiagError.__subclasses__() if kind.__module__ == errors.__name__}
    assert len(kinds) <= 6
    assert kinds | {"NetdiagError"} == set(errors.__all__)


def test_no_two_kinds_share_a_status():
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


def test_sentence_and_remedy_are_kept_apart():
    error = errors.Unsupported("no BTF", hint="install a kernel with CONFIG_DEBUG_INFO_BTF")
    assert str(error) == error.message == "no BTF"
    assert error.hint == "install a kernel with CONFIG_DEBUG_INFO_BTF"


def test_without_a_remedy_there_is_none():
    assert errors.UsageError("which file?").hint is None

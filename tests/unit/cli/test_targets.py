# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from netdiag.cli.targets import target_options
from netdiag.processes import Target


def test_options_become_one_target():
    found: list[Target] = []

    @click.command()
    @target_options
    def command(target: Target) -> None:
        found.append(target)

    outcome = CliRunner().invoke(command, ["--pid", "3", "--host", "192.0.2.0/24", "--host", "api.example"])
    assert outcome.exit_code == 0
    assert found == [Target(pids=(3,), hosts=("192.0.2.0/24", "api.example"), follow=True)]


def test_nothing_named_is_the_whole_machine():
    @click.command()
    @target_options
    def command(target: Target) -> None:
        assert target.is_everything

    assert CliRunner().invoke(command, []).exit_code == 0


@pytest.mark.parametrize("option", ["--pid", "--port"])
@pytest.mark.parametrize("number", ["0", "-1", "4194305", "1e3", "", "x", "٣", "9" * 5000])
def test_numbers_out_of_range_are_refused_with_the_range(option, number):
    @click.command()
    @target_options
    def command(target: Target) -> None:
        raise AssertionError(target)

    outcome = CliRunner().invoke(command, [option, number])
    assert outcome.exit_code == 2
    assert f"from 1 to {2**22 if option == '--pid' else 65535}" in outcome.output

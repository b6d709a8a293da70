# SPDX-License-Identifier: Apache-2.0
"""`netdiag route-check`: the way to a host, its networks and places, and what is wrong with it. Needs no rights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from netdiag.cli.options import Output, output_options
from netdiag.cli.route_words import LAST_PORT, host_and_port
from netdiag.errors import UsageError

__all__ = ["command"]

_PROTOCOLS = ("tcp", "udp", "icmp")


@click.command("route-check", short_help="Check the way to a host: networks, places, detours, addresses.")
@click.argument("words", metavar="[api] HOST[:PORT]", nargs=-1)
@click.option("--port", type=click.IntRange(1, LAST_PORT), help="Port of the service.  [default: 443]")
@click.option("--protocol", type=click.Choice(_PROTOCOLS), default="tcp", show_default=True, help="Of the probes.")
@click.option("-4", "only_4", is_flag=True, help="IPv4 only.")
@click.option("-6", "only_6", is_flag=True, help="IPv6 only.")
@click.option("-n", "no_names", is_flag=True, help="Do not ask for names of routers.")
@click.option("--resolver", "resolvers", metavar="IP", multiple=True, help="Ask this name server too. Repeatable.")
@click.option("--asn-db", metavar="FILE", type=click.Path(path_type=Path), help="MMDB file of networks, asked first.")
@click.option(
    "--geo-db", "geo_dbs", metavar="FILE", type=click.Path(path_type=Path), multiple=True, help="MMDB file of places."
)
@click.option("--cymru", is_flag=True, help="Ask Team Cymru by DNS for networks that no table knows.")
@click.option("--vantage", metavar="LAT,LON", help="Where this machine is.")
@click.option("--baseline-ms", metavar="N", type=click.FloatRange(min=0, min_open=True), help="The normal round trip.")
@click.option(
    "--landmarks", metavar="none|cloud|FILE", default="none", show_default=True, help="Places to compare with."
)
@click.option("--offline", is_flag=True, help="No DNS, no HTTP: the path alone.")
@click.option("--no-http", is_flag=True, help="Send no HTTPS request.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Bursts of probes.")
@click.option(
    "--flows", type=click.IntRange(0, 64), default=1, show_default=True, help="Flows per burst; 0: as needed."
)
@click.option("--inside", is_flag=True, help="Probe inside an open connection, too: two HTTPS requests. Needs root.")
@click.option("--odd", is_flag=True, help="Unusual packets, too: large ones, ECN, SYNs with data. Needs root.")
@click.option("--watch", is_flag=True, help="Repeat, and print changes, until Ctrl-C.")
@click.option(
    "--every", metavar="S", type=click.FloatRange(min=5), default=60.0, show_default=True, help="With --watch."
)
@click.option("--load", metavar="FILE|URL", help="Load in per cent by address or place, as JSON or lines.")
@click.option("--score", type=click.Choice(("latency", "load")), default="latency", show_default=True, help="Ranking.")
@click.option("--write", "write_to", metavar="FILE", type=click.Path(path_type=Path), help="Keep the choice in FILE.")
@click.option(
    "--write-format", type=click.Choice(("json", "envoy", "hosts")), help="Of --write.  [default: by its name]"
)
@click.option("--replay", metavar="FILE", help="Judge stored probes: netdiag, RIPE Atlas, scamper, mtr -j.")
@click.option("--pair", nargs=2, metavar="A B", help="Set two stored checks side by side.")
@click.option("--selftest", is_flag=True, help="Check an emulated network of this machine. Needs root.")
@click.option("--no-keep", is_flag=True, help="Keep nothing in the history.")
@output_options
def command(words: tuple[str, ...], output: Output, **given: Any) -> int:
    """Check the way to HOST: who carries the packets, where they go, whether that is a detour, which address to use.

    Sends to the host, to name servers, and to landmarks that were allowed; all of them are listed.

    \b
    netdiag route-check api.example.com
    netdiag route-check api.example.com --vantage 52.5,13.4 --landmarks cloud
    netdiag route-check --replay check.json --format markdown
    """  # noqa: D301 - click reads the control character
    from netdiag.cli import route_run

    wanted = list(words[1:] if words[:1] == ("api",) and len(words) > 1 else words)
    for option in ("selftest", "pair"):
        if given[option] and (wanted or output.format != "table"):
            raise UsageError(f"--{option} takes no HOST and prints one form: leave the others")
    if given["selftest"]:
        return route_run.selftest(sys.stdout)
    if given["pair"]:
        return route_run.pair(given["pair"], output, sys.stdout)
    if given["replay"] is not None:
        if wanted:
            raise UsageError("--replay has its own target: give no HOST")
        return route_run.replay(given, output, sys.stdout)
    if len(wanted) != 1:
        raise UsageError("give one HOST[:PORT]", hint="netdiag route-check api.example.com")
    host, port = host_and_port(wanted[0], given["port"])
    if given["only_4"] and given["only_6"]:
        raise UsageError("-4 and -6 exclude each other")
    if given["watch"]:
        return route_run.watch(host, port, given, output, sys.stdout)
    return route_run.once(host, port, given, output, sys.stdout)

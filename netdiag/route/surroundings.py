# SPDX-License-Identifier: Apache-2.0
"""What stands between this machine and the way that is judged: a VPN, a proxy, whatever answers for the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from netdiag.route.detour import Spot
from netdiag.route.hops import Path
from netdiag.route.model import Protocol, Vantage
from netdiag.route.physics import distance_km, fibre_ms
from netdiag.route.places import Here, Located

__all__ = ["TUNNELS", "is_proxied", "late_answers", "notes"]

TUNNELS = {
    "wireguard": "WireGuard",
    "tun": "a TUN device, as VPN programs make",
    "ipip": "IP in IP",
    "gre": "GRE",
    "gretap": "GRE",
    "ip6gre": "GRE",
    "ip6tnl": "IP in IPv6",
    "sit": "IPv6 in IPv4",
    "vti": "IPsec",
    "vti6": "IPsec",
    "xfrm": "IPsec",
    "xfrmi": "IPsec",
    "l2tp": "L2TP",
}
"""Drivers of devices whose packets travel inside other packets → what they are."""

_NEARER = 0.5
_LEAST_HOPS = 3


def notes(vantage: Vantage, target: Located | None, path: Path, seconds: Iterable[Path] = ()) -> Iterator[str]:
    """Yield what a reader of round trips and places has to know, a sentence each."""
    kind = TUNNELS.get(vantage.interface_kind or "")
    if kind is not None:
        yield (
            f"the way begins in a tunnel ({vantage.interface}: {kind}): what is before its end is not seen, "
            "and the way is the one from there"
        )
    if vantage.proxy is not None:
        yield f"programs use the proxy {vantage.proxy} (HTTPS_PROXY): this is the direct way, not theirs"
    if target is not None and any(hint.source == "header" for hint in target.refuted):
        city = target.place.city or "its place"
        yield (
            f"the answer names {city}, and connections stand sooner than light comes from there: a proxy or a box "
            "nearer by opens them for it"
        )
    yield from _impostor(path, seconds)


def is_proxied(target: Located | None, path: Path, seconds: Iterable[Path] = ()) -> bool:
    """Tell whether connections are opened by something nearer than the target, so that round trips are not to it.

    Either another protocol goes on far behind, or the answer names a place that light does not reach so soon while the
    way ends after a few hops. A place that is refuted at the end of a long way is more likely named by mistake.
    """
    if path.trace.protocol is not Protocol.TCP or not path.reached or not path.hops:
        return False
    refuted = target is not None and any(hint.source == "header" for hint in target.refuted)
    return (refuted and path.hops[-1].ttl <= _LEAST_HOPS) or any(_impostor(path, seconds))


def _impostor(path: Path, seconds: Iterable[Path]) -> Iterator[str]:
    """Yield a note where TCP ends near and another protocol finds the target far behind: somebody answers for it."""
    if path.trace.protocol is not Protocol.TCP or not path.reached or not path.hops:
        return
    end = path.hops[-1]
    for other in seconds:
        if other.trace.ip != path.trace.ip:
            continue
        far = max((hop.ttl for hop in other.hops if hop.responders), default=0)
        late = other.hops[-1].min_ms if other.reached and other.hops else None
        if end.min_ms is None or late is None:
            continue
        if far >= end.ttl + _LEAST_HOPS and end.min_ms < _NEARER * late:
            yield (
                f"TCP ends at hop {end.ttl} ({end.min_ms:.1f} ms) and {other.trace.protocol.upper()} goes on to hop "
                f"{far} ({late:.1f} ms): a proxy on the way answers TCP for the target"
            )
            return


def late_answers(spots: Sequence[Spot], path: Path, here: Here | None) -> Iterable[str]:
    """Yield a note for the first hop that stands near and answers as late as all behind it: an unlabelled tunnel.

    Its answers go to the end of the tunnel first, or return another way. No step in time is blamed on it.
    """
    if here is None:
        return
    least = {hop.ttl: hop.min_ms for hop in path.hops if hop.min_ms is not None}
    for spot in spots:
        behind = [ms for ttl, ms in least.items() if ttl > spot.ttl]
        needed = fibre_ms(2 * distance_km(here.place.point, spot.located.place.point) + 2 * here.radius_km)
        own = least.get(spot.ttl, 0.0)
        before = [one for one in spots if one.ttl < spot.ttl and one.located.counts][-1:]
        beside = any(
            distance_km(one.located.place.point, spot.located.place.point) < 500 and least.get(one.ttl, own) < 0.3 * own
            for one in before
        )
        if spot.located.counts and beside and behind and own > 3 * needed + 30 and max(behind) < 1.15 * own:
            city = spot.located.place.city or "that place"
            yield (
                f"hop {spot.ttl} stands in {city} and answers as late as all behind it ({own:.0f} ms): a tunnel "
                "carries its answers to the end first, or they return a long way; no step is blamed on it"
            )
            return

# SPDX-License-Identifier: Apache-2.0
"""In which cgroup, container and pod a process is, from its /proc/PID/cgroup. Standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Placement", "placement"]

_CONTAINER_ID = re.compile(r"(?:^|[-/:])([0-9a-f]{64}|[0-9a-f]{32}-\d+)(?:\.scope)?(?:/|$)")
_POD_UID = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the kernel and a container manager put a process."""

    cgroup: str | None
    """Path in the cgroup v2 tree, from its root; None where there is none."""
    container: str | None
    """The id, in full."""
    pod: str | None
    """The pod's uid, with dashes."""


def placement(text: str) -> Placement:
    """Return where a process is, from the text of its /proc/PID/cgroup."""
    unified, container, pod = None, None, None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        path = rest.partition(":")[2]
        if number == "0":
            unified = path
        if found := _CONTAINER_ID.findall(path):
            container = container or found[-1]
        if uid := _POD_UID.search(path):
            pod = pod or _dashed(uid.group(1))
    return Placement(cgroup=unified, container=container, pod=pod)


def _dashed(uid: str) -> str:
    """Return a pod's uid in its usual form: static pods and the systemd driver write it otherwise."""
    digits = uid.replace("_", "").replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

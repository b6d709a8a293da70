# SPDX-License-Identifier: Apache-2.0
"""Counts a recording from its raw records, as they come: for recordings too large, or too fast, for the tables.

It knows connections from the kernel's records and requests from what was seen in plaintext. Instants of requests are
those of the program's calls: a wait holds what the program's own reading added. Bounded: the newest so many of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netdiag.addresses import endpoint, to_text
from netdiag.recording.reader import Recording, Records
from netdiag.tables.codes import TcpFlags
from netdiag.text import safe
from netdiag.tui.columns import PARTS, Calls, Ends, Floats, Ints, Texts

__all__ = ["MOST", "Ledger"]

MOST = 1_000_000
"""Requests, and connections, whose figures are kept where nothing else is said."""
_ERROR_STATUS = 400
_ESTABLISHED, _FAILED, _CLOSED, _LISTENER = 1, 2, 3, 5
_SERVER = 2
_GIVEN_UP = (2, 3, 4, 5)
"""Ends of an exchange that are errors: cut, reset by either side, refused."""
_SEND, _WAIT, _RECEIVE = PARTS.index("send"), PARTS.index("wait"), PARTS.index("receive")


class Ledger:
    """Takes the parts of a recording as they come."""

    def __init__(self, most: int = MOST) -> None:
        """`most`: requests, and connections, whose figures are kept."""
        self._most = most
        self._start = 0
        self._texts: dict[int, str] = {}
        self._calls: list[Calls] = []
        self._ordered = False
        self._tcp: Records | None = None
        self._hosts: dict[int, str | None] = {}
        """Cookie → name or address of the other end."""
        self._older: set[int] = set()
        """Cookies of connections older than the trace: the first request seen on them may not be their first."""
        self._shared: dict[str, str] = {}
        self._first: dict[int, str] = {}
        """Cookie → host that its first request names."""
        self.programs: dict[int, str] = {}
        self.losses: dict[str, tuple[int, int]] = {}
        self.seen: dict[str, int] = {}
        self.newest_ns = 0.0
        self.requests = 0
        """All that were seen, also those whose figures are no longer kept."""
        self.has_calls = False

    def add(self, part: Recording) -> None:
        """Take what is new."""
        self._start = part.start_ns
        for fact in part.facts:
            self._take(fact)
        # connections first: their other end names the hosts of requests
        for stream, runs in sorted(part.runs.items(), key=lambda item: item[0] != "tcp"):
            joined = np.concatenate(runs) if len(runs) > 1 else runs[0]
            if not len(joined):
                continue
            self.seen[stream] = self.seen.get(stream, 0) + len(joined)
            if "time" in (joined.dtype.names or ()):
                self.newest_ns = max(self.newest_ns, float(int(joined["time"].max()) - self._start))
            if stream == "tcp":
                self._take_tcp(joined)
            elif stream == "http_request":
                self._take_requests(joined)
        if part.end_ns is not None:
            self.newest_ns = max(self.newest_ns, float(part.end_ns - self._start))

    @property
    def lost(self) -> int | None:
        """Events that were lost; None where nobody said."""
        return sum(lost for _, lost in self.losses.values()) if self.losses else None

    def calls(self) -> Calls:
        """Return the requests; those of servers only where no client was traced."""
        if self._calls and (len(self._calls) > 1 or not self._ordered):
            self._ordered = True
            whole = Calls.joined(self._calls)
            whole = whole.take(np.argsort(whole.began_ns, kind="stable"))
            self._calls = [whole.take(slice(-self._most, None)) if len(whole) > self._most else whole]
        return self._calls[0] if self._calls else Calls.none()

    def ends(self) -> Ends:
        """Return the connections, with the same rule."""
        rows = self._tcp
        if rows is None or not len(rows):
            return Ends.none()
        cookies = rows["cookie"].astype(np.int64).tolist()
        opened = self._instant(rows, "opened")
        kind = rows["kind"]
        found = Ends(
            row=np.full(len(rows), -1, np.int64),
            pid=_pids(rows["tgid"]),
            host=_texts([self._first.get(cookie) or self._hosts.get(cookie) for cookie in cookies]),
            opened_ns=opened,
            ended_ns=np.where((kind == _CLOSED) | (kind == _FAILED), self._instant(rows, "time"), np.nan),
            established=rows["established"] > 0,
            failed=kind == _FAILED,
            resumed=np.full(len(rows), np.nan),
            retransmits=rows["retransmits"].astype(np.float64),
        )
        client = rows["role"] != _SERVER
        return found.take(client) if client.any() else found

    def _take(self, fact: dict[str, Any]) -> None:
        kind = fact["kind"]
        if kind == "strings" and isinstance(fact.get("values"), list) and type(fact.get("first")) is int:
            self._texts.update(enumerate(map(str, fact["values"]), fact["first"]))
        elif kind == "loss" and all(type(fact.get(name)) is int for name in ("seen", "lost")):
            self.losses[str(fact.get("probe"))] = (fact["seen"], fact["lost"])
        elif kind == "process" and type(fact.get("pid")) is int:
            name = fact.get("exe") or fact.get("comm")
            if isinstance(name, str):
                self.programs[fact["pid"]] = name.rsplit("/", 1)[-1]

    def _take_tcp(self, new: Records) -> None:
        """Keep the last word on each connection."""
        new = new[new["kind"] != _LISTENER]
        for pid, comm in zip(new["tgid"].tolist(), new["comm"].tolist(), strict=True):
            self.programs.setdefault(pid, safe(comm))
        whole = new.copy() if self._tcp is None else np.concatenate([self._tcp, new])
        _, last = np.unique(whole["cookie"][::-1], return_index=True)
        self._tcp = whole[np.sort(len(whole) - 1 - last)[-self._most :]]
        self._older.update(new["cookie"][new["flags"] & TcpFlags.PREEXISTING != 0].tolist())
        fresh = [at for at, cookie in enumerate(new["cookie"].tolist()) if cookie not in self._hosts]
        for at in fresh:
            port = int(new["dport"][at])
            named = endpoint(to_text(new["daddr"][at].tobytes()), None if port == 443 else port)
            self._hosts[int(new["cookie"][at])] = named

    def _take_requests(self, new: Records) -> None:
        self.requests += len(new)
        self.has_calls = True
        client = new["server"] == 0
        if client.any():
            new = new[client]
        began, sent, first, ended = (self._instant(new, name) for name in ("began", "sent", "first_byte", "ended"))
        older = np.isin(new["cookie"], np.fromiter(self._older, new["cookie"].dtype, len(self._older)))
        later = new["number"] > 1
        status = np.where(new["status"] == 0, np.nan, new["status"].astype(np.float64))
        broken = np.isin(new["result"], _GIVEN_UP)
        parts = np.full((len(new), len(PARTS)), np.nan)
        parts[:, _SEND], parts[:, _WAIT], parts[:, _RECEIVE] = (
            (sent - began) / 1e6,
            (first - sent) / 1e6,
            (ended - first) / 1e6,
        )
        self._ordered = False
        self._calls.append(
            Calls(
                row=np.full(len(new), -1, np.int64),
                connection=np.full(len(new), -1, np.int64),
                pid=_pids(new["tgid"]),
                host=self._named(new),
                label=self._labels(new),
                began_ns=began,
                ended_ns=ended,
                total_ms=(ended - began) / 1e6,
                wait_ms=(first - sent) / 1e6,
                first_token_ms=np.full(len(new), np.nan),
                status=status,
                failed=np.where(
                    broken | ~np.isnan(status), (broken | (status >= _ERROR_STATUS)).astype(np.float64), np.nan
                ),
                retried=np.full(len(new), np.nan),
                reused=np.where((new["cookie"] == 0) | (~later & older), np.nan, later.astype(np.float64)),
                stream=new["stream_kind"] > 0,
                parts=parts,
            )
        )

    def _named(self, new: Records) -> Texts:
        cookies = new["cookie"].tolist()
        found: list[str | None] = []
        ports: dict[int, str] = {}
        for cookie, host in zip(cookies, new["host"].tolist(), strict=True):
            name = self._texts.get(host)
            there = self._hosts.get(cookie)
            if name is not None and there is not None:
                if cookie not in ports:
                    tail = there.rsplit(":", 1)[-1]
                    ports[cookie] = f":{tail}" if ":" in there and tail.isdecimal() and there[-1] != "]" else ""
                name = name + ports[cookie] if ports[cookie] and not name.endswith(ports[cookie]) else name
                name = self._shared.setdefault(name, name)  # one text, not one for each request
            if name is not None:
                self._first.setdefault(cookie, name)
            found.append(name or there)
        return _texts(found)

    def _labels(self, new: Records) -> Texts:
        pairs, where = np.unique(
            new["method"].astype(np.int64) << 32 | new["path"].astype(np.int64), return_inverse=True
        )
        made = [
            " ".join(filter(None, (self._texts.get(int(one) >> 32), self._texts.get(int(one) & 0xFFFFFFFF)))) or None
            for one in pairs
        ]
        return _texts(made)[where]

    def _instant(self, rows: Records, name: str) -> Floats:
        raw = rows[name].astype(np.int64)
        return np.where(raw == 0, np.nan, (raw - self._start).astype(np.float64))


def _pids(values: Any) -> Ints:
    found = values.astype(np.int64)
    found[found == 0] = -1
    return np.asarray(found)


def _texts(values: list[str | None]) -> Texts:
    found = np.empty(len(values), object)
    found[:] = values
    return found

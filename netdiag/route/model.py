# SPDX-License-Identifier: Apache-2.0
"""What was sent, to whom, and what came back: the stored probes from which every verdict about a route is recomputed.

Facts only, each with its unit and where it is from; nothing here is concluded. Instants are `*_ns`: nanoseconds on
CLOCK_MONOTONIC since `Clocks.monotonic_ns` of the measurement, so they are small and survive steps of the wall clock.
Durations are milliseconds. Unknown is None. Addresses are text as `ipaddress` writes it, without a zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "Asked",
    "Attempt",
    "Clock",
    "Clocks",
    "Connect",
    "ConnectOutcome",
    "Ended",
    "Flow",
    "Greeting",
    "HttpAnswer",
    "Ignored",
    "Kind",
    "Label",
    "Landmark",
    "Lookup",
    "Matched",
    "Measurement",
    "Method",
    "Odd",
    "OddKind",
    "OddProbe",
    "Probe",
    "Protocol",
    "Quote",
    "Reply",
    "Target",
    "Tls",
    "Trace",
    "Vantage",
]


class Protocol(StrEnum):
    """What a probe looks like to the routers."""

    TCP = "tcp"
    UDP = "udp"
    ICMP = "icmp"


class Method(StrEnum):
    """How the probes were sent; it says what the flow fields and the replies can tell."""

    TCP_CONNECT = "tcp-connect"
    """One connect() per probe, answers from the error queue. No privilege; each probe has a source port of its own."""
    UDP_SOCKET = "udp-socket"
    """One UDP socket per flow, answers from the error queue. No privilege."""
    ICMP_SOCKET = "icmp-socket"
    """An ICMP datagram socket (ping_group_range). No privilege; the kernel sets id and checksum."""
    TCP_RAW = "tcp-raw"
    """SYNs of one constant flow, the probe's number in the sequence number."""
    UDP_RAW = "udp-raw"
    """Datagrams of one constant flow; the number in the IP id (IPv4), in the payload as well (IPv6)."""
    ICMP_RAW = "icmp-raw"
    """Echo requests of constant id and checksum; the number in the sequence, a payload word evens the checksum out."""
    IN_SESSION = "in-session"
    """Empty segments inside the flow of a connection that is open."""
    IMPORTED = "imported"
    """Read from another tool's file."""


class Kind(StrEnum):
    """What a reply is."""

    TTL_EXCEEDED = "ttl-exceeded"
    UNREACHABLE = "unreachable"
    """A router or a firewall refuses; `Reply.code` says why. Never the target's own answer."""
    PORT_UNREACHABLE = "port-unreachable"
    """From the target: the answer to UDP. From another address it is a refusal on the way."""
    TOO_BIG = "too-big"
    """Fragmentation needed, or packet too big; `Reply.mtu` is what fits."""
    SYN_ACK = "syn-ack"
    RST = "rst"
    ACK = "ack"
    """A segment of an open connection (in-session probes)."""
    ECHO_REPLY = "echo-reply"
    DATA = "data"
    """A datagram from the target."""


class Matched(StrEnum):
    """By what a reply was recognised as the answer to that probe."""

    SOCKET = "socket"
    """The kernel found the socket; one socket carried one probe."""
    SEQUENCE = "sequence"
    """TCP sequence or acknowledgement number, or ICMP sequence number."""
    IP_ID = "ip-id"
    PAYLOAD = "payload"
    CHECKSUM = "checksum"
    IMPORTED = "imported"


class Clock(StrEnum):
    """Where the instant of a reply is from."""

    KERNEL = "kernel"
    """The kernel's receive time stamp: reading late does not lengthen the round trip."""
    TCP_INFO = "tcp-info"
    """The kernel's own round trip estimate of the handshake."""
    USER = "user"
    """When the program woke up: late by some 40 us, by milliseconds on a busy machine."""
    IMPORTED = "imported"


class Ended(StrEnum):
    """Why a trace ended."""

    ANSWERED = "answered"
    """The target answered and one more round trip passed."""
    REFUSED = "refused"
    """Something on the way refused, and nothing beyond it answered within the wait."""
    SILENT = "silent"
    """No answer of the target within the wait."""
    BUDGET = "budget"
    """The time given was over first."""
    FAILED = "failed"
    """Nothing could be sent: `Trace.error` says why."""


class ConnectOutcome(StrEnum):
    """How an attempt to connect ended."""

    ESTABLISHED = "established"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    RESET = "reset"
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    """A local reason: no route, no port left, not permitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the user asked about."""

    host: str
    port: int
    protocol: Protocol = Protocol.TCP


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The fields by which routers balance load. Probes of one flow took one way, unless balancing is per packet."""

    id: int
    """Position in `Trace.flows`."""
    source_ip: str | None = None
    source_port: int | None = None
    """ICMP: the id. None where each probe had a port of its own (`tcp-connect`), or the kernel's is not known."""
    port: int | None = None
    """ICMP: the constant checksum, where it was held constant."""
    label: int | None = None
    """IPv6 flow label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One entry of an MPLS label stack as RFC 4950 reports it, outermost first."""

    value: int
    """0..1048575."""
    traffic_class: int
    """0..7, once called EXP."""
    bottom: bool
    ttl: int
    """1 where the tunnel shows its hops; 255 or so: the tunnel hides them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Our probe as the replying router saw it, from the packet that its ICMP error quotes. None: not seen."""

    source_ip: str | None = None
    destination_ip: str | None = None
    source_port: int | None = None
    port: int | None = None
    ttl: int | None = None
    """1 (or 0) on a plain hop; more: the hop sits behind something that does not count."""
    tos: int | None = None
    """DSCP and ECN byte, traffic class in IPv6; we send 0."""
    length: int | None = None
    """Total length that the quoted header claims, bytes."""
    changed: tuple[str, ...] = ()
    """Which fields differ from what was sent, of source-ip, destination-ip, source-port, port, ip-id, checksum, tos.
    Any address, port or id, or a checksum that no other change explains: something on the way translates addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The first answer to a probe."""

    kind: Kind
    ip: str
    """Who answered (the outer source address)."""
    rtt_ms: float
    clock: Clock
    matched: Matched
    code: int | None = None
    """ICMP code; None for what is no ICMP error."""
    ttl: int | None = None
    """TTL or hop limit of the reply as it arrived; what is missing to 64, 128 or 255 are the hops of the way back."""
    mtu: int | None = None
    """Of a too-big reply, bytes."""
    labels: tuple[Label, ...] = ()
    """MPLS. All hops of a tunnel show the round trip of its tail: the answer goes to the tunnel's end first."""
    quote: Quote | None = None
    """None: without privileges the kernel keeps most of it to itself."""
    copies: int = 0
    """Further answers to the same probe; the first one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One packet out and what came back."""

    flow: int
    """`Flow.id`."""
    ttl: int
    round: int
    """Bursts from 0; within a burst each hop is asked once per flow, so no per-router limit cuts in."""
    attempt: int
    """From 0: which one of this flow, TTL and round."""
    sent_ns: int
    source_port: int | None = None
    """Of this probe, where the flow's fields do not say it (`tcp-connect`)."""
    warm_up: bool = False
    """Sent to fill neighbour tables: no figure of it counts."""
    far: bool = False
    """Sent with a TTL that any way lets through: it tells that the target answers and how fast, not how far it is."""
    reply: Reply | None = None
    """None: no answer until the trace ended. That is silence, not loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Packets that arrived and changed nothing."""

    duplicates: int = 0
    """Answers to a probe that was answered already; also counted at that reply (`copies`)."""
    mismatched: int = 0
    """Quote or acknowledge something that we never sent, though they name our addresses or our port."""
    malformed: int = 0
    """Too short, wrong lengths or checksums, impossible extensions."""
    foreign: int = 0
    """Of other programs on this machine; raw sockets see them too."""
    late: int = 0
    """Answers to a trace that was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The probes to one address by one method."""

    ip: str
    port: int | None
    """TCP, UDP: destination port; ICMP: None."""
    protocol: Protocol
    method: Method
    privileged: bool
    started_ns: int
    duration_ms: float
    flows: tuple[Flow, ...]
    single_flow: bool
    """Whether every probe of one flow id had the same flow fields. False for `tcp-connect`: paths may mix."""
    probes: tuple[Probe, ...]
    """In order of sending."""
    ended: Ended
    wait_ms: float
    """How long an answer was waited for, at most."""
    rounds: int = 1
    ignored: Ignored = field(default_factory=Ignored)
    error: str | None = None
    """One sentence, where something failed; a trace that could not use a method says so here."""
    notes: tuple[str, ...] = ()
    """What a reader of the figures should know: a method that was tried first and why it was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """A TLS handshake on a connection of ours."""

    handshake_ms: float
    version: str
    """As OpenSSL names it: TLSv1.3."""
    alpn: str | None = None
    trusted: bool | None = None
    """Whether the certificate verified against the system's trust; None: not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The head of an HTTP answer: nothing of a body, and only the headers that the request named."""

    status: int
    wait_ms: float
    """From the request's last byte to the answer's first."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One connection of ours, opened and closed to measure."""

    started_ns: int
    source_port: int | None
    outcome: ConnectOutcome
    connect_ms: float | None = None
    """SYN to SYN-ACK; of a refused one SYN to RST. None: no answer."""
    clock: Clock = Clock.USER
    error: str | None = None
    """errno name, or the TLS library's reason."""
    retransmits: int | None = None
    """SYNs that were sent again; a `connect_ms` with one holds the kernel's wait of 1 s. None: not known."""
    tls: Tls | None = None
    http: HttpAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """The connections to one address; loss of the target is counted here and nowhere else."""

    ip: str
    port: int
    attempts: tuple[Attempt, ...]
    """In order of time. Different source ports may reach different sites of an anycast address."""
    landmark: str | None = None
    """`Landmark.name` when this is one; None: an address of the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmark:
    """A place that the user allowed to ask, to learn what is normal here."""

    name: str
    host: str
    port: int
    latitude: float | None = None
    longitude: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One DNS question and its answer: A, AAAA, HTTPS, PTR, or TXT of an origin zone."""

    resolver: str
    name: str
    qtype: str
    at_ns: int
    subnet: str | None = None
    """Client subnet that was sent along (RFC 7871); None: none was."""
    duration_ms: float | None = None
    answers: tuple[str, ...] = ()
    """Foreign text: escape it before it is shown."""
    error: str | None = None
    """NXDOMAIN, SERVFAIL, timeout …; None with no answers: the name exists without such data."""


class OddKind(StrEnum):
    """What is unusual about a SYN."""

    PLAIN = "plain"
    """Nothing: the others are compared with it."""
    ECN = "ecn"
    """Flags ECE and CWR: it offers congestion notification (RFC 3168)."""
    ECT = "ect"
    """ECT(0) in its IP header, which routers quote."""
    DATA = "data"
    """A few bytes of data and an empty cookie request (RFC 7413)."""
    SIZE = "size"
    """Data that fills a packet of `OddProbe.size` bytes; never to be fragmented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddProbe:
    """One unusual SYN, from a source port of its own, and its first answer."""

    kind: OddKind
    ttl: int
    size: int
    """Bytes of the whole packet."""
    sent_ns: int
    reply: Kind | None = None
    """None: silence."""
    ip: str | None = None
    tos: int | None = None
    """Of the packet as a router quotes it."""
    mtu: int | None = None
    """Of a too-big answer."""
    ece: bool | None = None
    """Whether the SYN-ACK takes the offer of congestion notification; None: no SYN-ACK."""
    acked: int | None = None
    """Bytes of data that the SYN-ACK acknowledges."""
    mss: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """A ClientHello of a chosen size on a connection of ours, and whether anything came back. Closed after that."""

    mss: int | None
    """Largest segment that we allowed on both sides; None: the system's."""
    size: int
    connected: bool
    acked: bool | None = None
    """Whether the far end acknowledged all of it; None: not known."""
    received: int = 0
    """Bytes that came back until it was quiet or the wait was over."""
    largest: int | None = None
    """Largest segment that arrived, by the kernel's estimate."""
    mtu: int | None = None
    """Path MTU that the kernel believed in at the end: smaller than the device's where a router told it."""
    mtu_before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """Unusual probes to one address of the target."""

    ip: str
    port: int
    probes: tuple[OddProbe, ...] = ()
    greetings: tuple[Greeting, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Whom a packet was sent to, and why. What is not listed was not contacted."""

    purpose: str
    """trace, connect, https, tls, odd, dns, landmark, load."""
    address: str
    port: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """Where we are, as far as known."""

    source_ip: str | None = None
    """The address that the system uses towards the target; mostly a private one."""
    interface: str | None = None
    interface_kind: str | None = None
    """The kernel's name of its driver: wireguard, tun, virtio_net …"""
    proxy: str | None = None
    """Host and port that the environment names for HTTPS; never its password."""
    latitude: float | None = None
    longitude: float | None = None
    source: str | None = None
    """Who says the place: given (by the user). None: no place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The wall clock beside the monotonic one, at start and end: a step between them shows."""

    monotonic_ns: int
    realtime_ns: int
    """Nanoseconds since 1970, UTC."""
    end_monotonic_ns: int
    end_realtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All that one check of a route saw. `netdiag.route.store` writes and reads it."""

    version: str
    """Of netdiag, or the name of the tool whose file was imported."""
    target: Target
    clocks: Clocks
    vantage: Vantage = field(default_factory=Vantage)
    privileged: bool = False
    """Whether raw sockets were allowed."""
    traces: tuple[Trace, ...] = ()
    connects: tuple[Connect, ...] = ()
    landmarks: tuple[Landmark, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    odd: tuple[Odd, ...] = ()
    asked: tuple[Asked, ...] = ()
    ended: str = "done"
    """done, interrupted, or one sentence on what ended it."""

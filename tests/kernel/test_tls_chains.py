# SPDX-License-Identifier: Apache-2.0
"""Certificates as servers send them and clients take them: chains without their middle, and two parties in one name."""

from __future__ import annotations

import contextlib
import itertools
import select
import shlex
import socket
import socketserver
import threading

import pytest

from tests.kernel.test_tls_causes import VERSIONS, codes, findings, resumes, told
from tests.kernel.test_tls_truth import FULL, Seen, authority, client, go_client, traced
from tests.kernel.tls_servers import Authority, nginx

pytestmark = pytest.mark.kernel

__all__ = ["authority", "go_client"]

REFUSALS = {
    "curl": "unknown_ca",
    "requests": "unknown_ca",
    "go-plain": "bad_certificate",
    "rustls": "unknown_ca",
    "java": None,
}
"""What each client says of a certificate that leads nowhere; Java's closes without a word."""


@pytest.fixture(scope="module")
def middle(authority):
    """Return an authority that the root vouches for."""
    return authority.intermediate("middle")


@pytest.fixture(scope="module")
def leaf(authority, middle):
    """Return a server's key and certificate that the middle one issued."""
    return authority.issue("leaf", by=middle)


def tries(argv, times=3):
    """Return a command that runs another so often, whatever comes of it."""
    return ["sh", "-c", f"for n in {' '.join(map(str, range(times)))}; do {shlex.join(argv)} 2>/dev/null; done; true"]


@pytest.mark.parametrize("name", list(REFUSALS) if FULL else ["curl", "go-plain"])
def test_a_server_that_does_not_send_its_issuer(name, authority, leaf, request, tmp_path):
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_2"]}, {"*": leaf}) as server:
        argv = tries(client(name, authority.cert, [server.url("a")], request, 1))
        document, _ = traced(tmp_path, argv)
    seen = Seen(document, set(server.ports.values()))
    assert set(told(seen, "outcome", "alert", "certificate_count")) == {("failed", REFUSALS[name], 1)}
    # of processes that are gone so soon the program is not always known: then each has a finding of its own
    found = [entry for entry in document["findings"] if entry["code"] == "tls.incomplete-chain"]
    assert {(entry["cause"], entry["severity"]) for entry in found} == {("refused", "critical")}
    assert sum(entry["count"] for entry in found) >= 3
    assert "tls.handshake-failed" not in codes(document)


def test_a_client_that_looks_at_certificates_only_after_the_handshake(authority, leaf, request, tmp_path):
    """node's handshake is complete when it refuses: it closes without having asked for anything."""
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_2"]}, {"*": leaf}) as server:
        argv = tries(client("node-single", authority.cert, [server.url("a")], request, 1))
        document, _ = traced(tmp_path, argv)
    seen = Seen(document, set(server.ports.values()))
    assert told(seen, "outcome") == [("completed",)] * 3
    assert [entry["requests"] for entry in seen.connections] == [0] * 3
    assert "tls.incomplete-chain" in codes(document)
    assert "reuse.client-per-call" not in codes(document)


def test_where_the_chain_is_encrypted_it_is_a_handshake_that_failed(authority, leaf, request, tmp_path):
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_3"]}, {"*": leaf}) as server:
        document, _ = traced(tmp_path, tries(client("curl", authority.cert, [server.url("a")], request, 1)))
    assert findings(document)["tls.handshake-failed"]["cause"] == "unknown_ca"
    assert "tls.incomplete-chain" not in codes(document)


def test_a_chain_that_leads_to_an_unknown_root_is_not_incomplete(authority, middle, leaf, request, tmp_path):
    whole = leaf[0], authority.bundle("whole", leaf[1], middle[1])
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_2"]}, {"*": whole}) as server:
        document, _ = traced(tmp_path, client("distrust", authority.cert, [server.url("a")], request, 3))
    assert findings(document)["tls.handshake-failed"]["cause"] == "unknown_ca"
    assert "tls.incomplete-chain" not in codes(document)


@pytest.mark.parametrize("sent", ["own", "whole"])
def test_a_chain_that_the_client_can_follow_is_none_of_our_business(sent, authority, middle, leaf, request, tmp_path):
    """Who knows the issuer needs nobody to send it."""
    whole = authority.bundle("all", leaf[1], middle[1])
    known = middle[1] if sent == "own" else authority.cert
    trust = authority.bundle(f"trust-{sent}", known, authority.cert)
    with nginx(
        tmp_path / "nginx", {"a": VERSIONS["TLSv1_2"]}, {"*": (leaf[0], leaf[1] if sent == "own" else whole)}
    ) as server:
        document, _ = traced(tmp_path, client("requests-bare", trust, [server.url("a")], request, 4))
    seen = Seen(document, set(server.ports.values()))
    assert set(told(seen, "outcome", "certificate_count")) == {("completed", 1 if sent == "own" else 2)}
    assert not codes(document) & {"tls.incomplete-chain", "tls.handshake-failed", "tls.interception"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_chain_of_nineteen_kilobytes(version, authority, request, tmp_path):
    """Of several certificates, as real ones are, not one that is padded."""
    middles = [authority.intermediate(f"thick{number}", names=320) for number in range(3)]
    own = authority.issue("own", by=middles[0])
    chain = authority.bundle("chain", own[1], *(cert for _, cert in middles))
    with nginx(tmp_path / "nginx", {"a": VERSIONS[version]}, {"*": (own[0], chain)}) as server:
        document, _ = traced(tmp_path, client("requests-bare", authority.cert, [server.url("a")], request, 4))
    seen = Seen(document, set(server.ports.values()))
    assert all(19_000 < size < 23_000 for (size,) in told(seen, "server_flight_bytes"))
    large = findings(document)["tls.large-server-flight"]
    assert (large["count"], large["of"]) == (4, 4)


# --- somebody in between --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def switch(ports):
    """Forward connections to each port in turn, as a box on the way that answers some of them itself."""
    turns = itertools.cycle(ports)

    class Forward(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(("127.0.0.1", next(turns))) as server:
                ends = {self.request: server, server: self.request}
                while ends:
                    for end in select.select(list(ends), [], [], 5.0)[0] or [server]:
                        data = b""
                        with contextlib.suppress(OSError):
                            data = end.recv(65_536)
                            ends[end].sendall(data)
                        if not data:
                            return

    with socketserver.TCPServer(("127.0.0.1", 0), Forward) as box:
        thread = threading.Thread(target=box.serve_forever, args=(0.05,))
        thread.start()
        yield box.server_address[1]
        box.shutdown()
        thread.join()


BOX = VERSIONS["TLSv1_2"] + " ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;"
HOST = VERSIONS["TLSv1_2"] + " ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;"


@pytest.mark.parametrize("kind", ["box", "fleet", "renewed"])
def test_two_parties_in_one_name(kind, authority, tmp_path, tmp_path_factory):
    """Another issuer and other choices: somebody in between. One of them alone: a fleet, or a new certificate."""
    other = Authority(tmp_path_factory.mktemp("other"), name="inspection")
    mine = authority.issue("host")
    theirs = mine if kind == "fleet" else other.issue("box")
    servers = {"host": HOST, "box": HOST if kind == "renewed" else BOX}
    with (
        nginx(tmp_path / "nginx", servers, {"host": mine, "box": theirs, "*": mine}) as server,
        switch([server.ports["host"], server.ports["box"]]) as port,
    ):
        trust = authority.bundle(f"both-{kind}", authority.cert, other.cert)
        document, printed = traced(tmp_path, resumes(trust, "TLSv1_2", *[f"127.0.0.1:{port}"] * 8))
    assert set(printed.split()) == {"False"}
    if kind == "box":
        found = findings(document)["tls.interception"]
        assert (found["count"], found["of"], found["cause"]) == (4, 8, "sessions-refused")
        assert "tls.resumption-refused" not in codes(document)
    else:
        assert "tls.interception" not in codes(document)
        assert "tls.resumption-refused" in codes(document)

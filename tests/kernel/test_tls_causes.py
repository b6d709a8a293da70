# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with handshakes, made by nginx, openssl and real clients: seen as it was, and named right."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
import time

import pytest

from netdiag.lab.proxy import free_port
from tests.kernel.harness import serve
from tests.kernel.test_tls_truth import CLIENTS, FULL, Seen, authority, client, go_client, needed, traced
from tests.kernel.tls_servers import nginx, s_server

pytestmark = pytest.mark.kernel

__all__ = ["authority", "go_client"]

VERSIONS = {"TLSv1_2": "ssl_protocols TLSv1.2;", "TLSv1_3": "ssl_protocols TLSv1.3;"}


@pytest.fixture(scope="module")
def keys(authority):
    return {"*": authority.issue("plain"), "large": authority.issue("large", names=1010)}


def resumes(ca, version, *steps):
    return [sys.executable, str(CLIENTS / "resumes.py"), str(ca), version, *map(str, steps)]


def findings(document):
    return {entry["code"]: entry for entry in document["findings"]}


def codes(document):
    return set(findings(document))


def told(seen, *names):
    return [tuple(entry[name] for name in names) for entry in seen.handshakes]


# --- sessions that are refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_that_do_not_share_their_keys(version, authority, keys, tmp_path):
    servers = {"a": VERSIONS[version], "b": VERSIONS[version] + " listen 127.0.0.2:{a} ssl;"}
    with nginx(tmp_path / "nginx", servers, keys) as server:
        port = server.ports["a"]
        steps = [f"127.0.0.{1 + turn // 2 % 2}:{port}" for turn in range(10)]
        document, printed = traced(tmp_path, resumes(authority.cert, version, *steps))
    seen = Seen(document, {port})
    assert [str(entry["resumed"]) for entry in seen.handshakes] == printed.split()
    assert printed.split().count("False") == 5
    refused = findings(document)["tls.resumption-refused"]
    assert (refused["cause"], refused["count"], refused["of"]) == ("some-nodes", 4, 9)


def test_a_reload_ends_the_sessions(authority, keys, tmp_path):
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_3"]}, keys, master=True) as server:
        ask = f"127.0.0.1:{server.ports['a']}"
        steps = [*[ask] * 6, f"hup:{server.pid}", 0.6, *[ask] * 3]
        document, printed = traced(tmp_path, resumes(authority.cert, "TLSv1_3", *steps))
    seen = Seen(document, set(server.ports.values()))
    assert [str(entry["resumed"]) for entry in seen.handshakes] == printed.split()
    assert printed.split() == ["False", *["True"] * 5, "False", *["True"] * 2]
    refused = findings(document)["tls.resumption-refused"]
    assert (refused["cause"], refused["count"]) == ("after-reload", 1)


def test_tickets_that_expire(authority, keys, tmp_path):
    """In TLS 1.2, whose clients offer them all the same; those of TLS 1.3 know the lifetime and do not."""
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_2"] + " ssl_session_timeout 2;"}, keys) as server:
        ask = f"127.0.0.1:{server.ports['a']}"
        steps = [ask, ask, ask, 5.3, ask, ask, 5.3, ask, ask]
        document, printed = traced(tmp_path, resumes(authority.cert, "TLSv1_2", *steps))
    assert printed.split() == ["False", "True", "True", "False", "True", "False", "True"]
    refused = findings(document)["tls.resumption-refused"]
    assert (refused["cause"], refused["count"]) == ("expired", 2)
    learned = refused["learned"]
    assert (learned["name"], learned["unit"]) == ("ticket_lifetime", "s")
    assert learned["low"] <= 2.0 <= learned["high"]


def test_a_session_that_no_server_can_take_back(authority, keys, tmp_path):
    """nginx with neither tickets nor a cache still hands out two tickets of 74 bytes."""
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_3"] + " ssl_session_tickets off;"}, keys) as server:
        steps = [f"127.0.0.1:{server.ports['a']}"] * 5
        document, printed = traced(tmp_path, resumes(authority.cert, "TLSv1_3", *steps))
    assert set(printed.split()) == {"False"}
    assert findings(document)["tls.resumption-refused"]["cause"] == "always"


# --- the hellos -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["requests-bare", "go-plain", *(["node-single", "java"] if FULL else [])])
def test_a_server_that_wants_another_group(name, authority, keys, request, tmp_path):
    if name == "java":
        needed("java")
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_3"] + " ssl_ecdh_curve secp384r1;"}, keys) as server:
        document, _ = traced(tmp_path, client(name, authority.cert, [server.url("a", "/close")], request, 4))
        logged = server.logged(4)
    seen = Seen(document, set(server.ports.values()))
    mine = told(seen, "hello_retry", "group", "version", "resumed")
    assert mine == [(True, "P-384", "TLSv1.3", entry.resumed) for entry in logged]
    assert findings(document)["tls.hello-retry"]["count"] == 4


@pytest.mark.parametrize("kind", ["passed", "lost", "reset"])
def test_a_hello_with_a_key_of_post_quantum_cryptography(kind, authority, keys, request, network, tmp_path):
    """It takes two segments; some networks cannot cope, which shows as its being sent again, or as a reset."""
    network.run("ip", "link", "set", "lo", "mtu", "1500")
    with network.inside():
        server = tmp_path / "nginx"
        running = nginx(server, {"a": VERSIONS["TLSv1_3"]}, keys)
        site = running.__enter__()
    try:
        port = site.ports["a"]
        match kind:
            case "lost":
                network.rules(f"tcp dport {port} ip length > 1400 numgen inc mod 2 == 0 drop")
            case "reset":
                network.rules(f"tcp dport {port} ip length > 1400 reject with tcp reset")
        argv = client("chrome", authority.cert, [site.url("a", "/close")], request, 4)
        document, _ = traced(tmp_path, network.command(*argv))
    finally:
        running.__exit__(None, None, None)
    seen = Seen(document, {port})
    assert seen.handshakes
    assert all(1400 < size < 2600 for (size,) in told(seen, "client_hello_bytes"))
    if kind == "passed":
        assert told(seen, "outcome", "group") == [("completed", "X25519")] * 4
        assert "tls.large-client-hello" not in codes(document)
    else:
        assert findings(document)["tls.large-client-hello"]["cause"] == kind
        assert "tls.handshake-failed" not in codes(document)
    if kind == "lost":  # the wait until it is sent again: the server knows nothing of it
        resent = {entry["id"] for entry in document["connections"] if entry["retransmits"]}
        again = [each for each in seen.handshakes if each["outcome"] == "completed" and each["connection"] in resent]
        assert again
        assert all(entry["server_ms"] < 0.5 * entry["network_ms"] for entry in again), again


@pytest.mark.parametrize("version", VERSIONS)
def test_a_chain_that_does_not_fit_into_the_first_window(version, authority, keys, request, tmp_path):
    with nginx(tmp_path / "nginx", {"large": VERSIONS[version], "a": VERSIONS[version]}, keys) as server:
        document, _ = traced(
            tmp_path, client("requests-bare", authority.cert, [server.url("large"), server.url("a")], request, 4)
        )
    size = len(ssl.PEM_cert_to_DER_cert((authority.folder / "large.pem").read_text()))
    seen = Seen(document, set(server.ports.values()))
    sizes = [bytes_ for (bytes_,) in told(seen, "server_flight_bytes")]
    assert all(size < flight < size + 1500 for flight in sizes[:4])
    assert all(flight < 2500 for flight in sizes[4:])
    large = [entry for entry in document["findings"] if entry["code"] == "tls.large-server-flight"]
    assert size > 19_000
    assert [(entry["count"], entry["subject"]["remote"]) for entry in large] == [(4, large[0]["subject"]["remote"])]
    assert str(server.ports["large"]) in str(large[0]["subject"])


# --- slow sides -----------------------------------------------------------------------------------------------------


def test_a_server_that_is_late(authority, keys, tmp_path):
    """It is stopped while clients connect: the kernel takes the connection and the hello, and nobody answers."""
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_3"]}, keys) as server, dozing(server.pid):
        steps = [f"127.0.0.1:{server.ports['a']}", 0.05] * 8
        document, _ = traced(tmp_path, resumes(authority.cert, "TLSv1_3", *steps))
    slow = findings(document)["tls.slow-server"]
    assert slow["count"] >= 6
    assert "tls.slow-client" not in codes(document)


class dozing:  # noqa: N801 - reads as a verb in `with`
    """Stop a process for 0.15 s at a time, with 10 ms between."""

    def __init__(self, pid):
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._doze)

    def _doze(self):
        while not self._over.is_set():
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(0.15)
            os.kill(self._pid, signal.SIGCONT)
            time.sleep(0.01)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def test_a_client_whose_event_loop_is_busy(authority, keys, request, tmp_path):
    with nginx(tmp_path / "nginx", {"a": VERSIONS["TLSv1_3"]}, keys) as server:
        document, _ = traced(tmp_path, client("blocked-loop", authority.cert, [server.url("a")], request, 5))
    slow = findings(document)["tls.slow-client"]
    assert (slow["count"], slow["of"]) == (5, 5)
    assert slow["cost_ms"] > 5 * 60
    assert "tls.slow-server" not in codes(document)


# --- certificates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_that_the_client_does_not_trust(version, authority, keys, request, tmp_path):
    """All of the chain is there, its root too: nothing is missing but the trust."""
    whole = {"*": (keys["*"][0], authority.bundle("rooted", keys["*"][1], authority.cert))}
    with nginx(tmp_path / "nginx", {"a": VERSIONS[version]}, whole) as server:
        document, _ = traced(tmp_path, client("distrust", authority.cert, [server.url("a")], request, 3))
    seen = Seen(document, set(server.ports.values()))
    assert told(seen, "outcome", "alert") == [("failed", "unknown_ca")] * 3
    failed = findings(document)["tls.handshake-failed"]
    assert (failed["cause"], failed["severity"], failed["count"]) == ("unknown_ca", "critical", 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_asks_for_certificates_and_gets_them(version, authority, keys, request, tmp_path):
    authority.issue("client", usage="clientAuth")
    asks = f"ssl_verify_client on; ssl_client_certificate {authority.cert};"
    with nginx(tmp_path / "nginx", {"a": VERSIONS[version] + asks}, keys) as server:
        urls = [server.url("a", "/close"), server.url("a", "/keep")]
        document, _ = traced(tmp_path, client("certificate", authority.cert, urls, request, 4))
        logged = server.logged(8)
    seen = Seen(document, set(server.ports.values()))
    assert told(seen, "outcome", "version", "resumed") == [("completed", logged[0].version, False)] * 5
    assert [entry["requests"] for entry in seen.connections] == [1, 1, 1, 1, 4]
    assert not codes(document) & {"tls.handshake-failed", "tls.slow-client", "tls.slow-server"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_asks_for_certificates_and_gets_none(version, authority, keys, tmp_path):
    more = ["-Verify", "1", "-CAfile", str(authority.cert), "-tls1_" + version[-1]]
    with s_server(*keys["*"], "-www", *more) as port:
        argv = [needed("curl"), "-sS", "--cacert", str(authority.cert)]
        loop = f"for n in 1 2 3; do {' '.join(argv)} https://localhost:{port}/ || true; done"
        document, _ = traced(tmp_path, ["sh", "-c", loop])
    seen = Seen(document, {port})
    assert told(seen, "outcome") == [("failed",)] * 3
    # the server's alert is encrypted in TLS 1.3: which one it is cannot be seen
    assert set(told(seen, "alert")) == {(None,)} if version == "TLSv1_3" else {("handshake_failure",)}
    assert findings(document)["tls.handshake-failed"]["count"] == 3


# --- early data -----------------------------------------------------------------------------------------------------


def test_early_data_that_is_accepted_and_then_refused(authority, keys, tmp_path):
    port, session = free_port(), tmp_path / "session"
    (tmp_path / "early").write_bytes(b"GET / HTTP/1.0\r\n\r\n")
    server = ["openssl", "s_server", "-accept", str(port), "-cert", keys["*"][1], "-key", keys["*"][0], "-tls1_3"]
    ask = f"openssl s_client -connect 127.0.0.1:{port} -servername localhost -CAfile {authority.cert} -tls1_3"
    script = (
        f"(sleep 0.4; echo Q) | {ask} -sess_out {session} >/dev/null 2>&1\n"
        f"for n in 1 2; do (sleep 0.3; echo Q) | {ask} -sess_in {session} -early_data {tmp_path}/early 2>&1"
        " | grep -a '^Early data was'; done; true"
    )
    with subprocess.Popen(
        [*map(str, server), "-early_data", "-quiet"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        time.sleep(0.3)
        document, printed = traced(tmp_path, ["sh", "-c", script])
        process.kill()
    words = [line.removeprefix("Early data was ") for line in printed.splitlines()]
    assert words == ["accepted", "rejected"]
    seen = Seen(document, {port})
    assert told(seen, "early_data") == [("none",), ("accepted",), ("refused",)]


# --- what a passive observer may trip over --------------------------------------------------------------------------


MAIL = """
import smtplib, ssl, sys
with smtplib.SMTP("localhost", int(sys.argv[1])) as mail:
    mail.starttls(context=ssl.create_default_context(cafile=sys.argv[2]))
    print(mail.noop()[0])
"""


def mail_server(listener, key, cert):
    """Speak as much SMTP as one client needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    sock, _ = listener.accept()
    sock.sendall(b"220 ready\r\n")
    while b"STARTTLS" not in (line := sock.recv(1000)):
        sock.sendall(b"250-here\r\n250 STARTTLS\r\n" if line else b"")
    sock.sendall(b"220 go\r\n")
    with context.wrap_socket(sock, server_side=True) as wrapped:
        while line := wrapped.recv(1000):
            wrapped.sendall(b"221 bye\r\n" if b"quit" in line.lower() else b"250 done\r\n")


def test_a_handshake_behind_starttls(authority, keys, tmp_path, keep):
    listener = keep(serve())
    threading.Thread(target=mail_server, args=(listener, *keys["*"]), daemon=True).start()
    port = listener.getsockname()[1]
    document, printed = traced(tmp_path, [sys.executable, "-c", MAIL, str(port), str(authority.cert)])
    assert printed.split() == ["250"]
    seen = Seen(document, {port})
    assert told(seen, "outcome", "version", "sni", "resumed") == [("completed", "TLSv1.3", "localhost", False)]
    assert not codes(document) & {"tls.slow-server", "tls.slow-client", "tls.handshake-failed"}

# SPDX-License-Identifier: Apache-2.0
"""Scenes that are captured: clients of every kind against every kind of server, each a few connections."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.captures.world import GO, GO_H2, HERE, NODE, NODE_H2, PLAIN, PYTHON, World

__all__ = ["SCENES"]

Scene = Callable[[World, Path], list[dict[str, Any]] | None]
HOST = "localhost"
CIPHERS_12 = (
    "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES256-SHA", "AES256-GCM-SHA384", "AES128-SHA", "AES128-CCM", "AES256-CCM8",
)  # fmt: skip
VERSIONS = {"tls1_1": "TLSv1.1", "tls1_2": "TLSv1.2", "tls1_3": "TLSv1.3"}
CIPHERS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


def curl(world: World, keys: Path, *words: str) -> str:
    """Run curl with the lab's certificate."""
    base = ["curl", "-s", "--cacert", str(world.folder / "cert.pem"), "--max-time", "10"]
    return world.run([*base, *words], keys=keys)


def outputs(count: int) -> list[str]:
    return ["-o", "/dev/null"] * count


def asked(*ports: int, path: str = "", times: int = 1, words: tuple[str, ...] = ()) -> Scene:
    """One curl for each port, `times` requests on it."""

    def scene(world: World, keys: Path) -> None:
        for port in ports:
            scheme = "http" if port in (8080, 8081, PLAIN) else "https"
            urls = [f"{scheme}://{HOST}:{port}/{path}"] * times
            curl(world, keys, *words, *outputs(times), *urls)

    return scene


def again(port: int, times: int, *words: str) -> Scene:
    """`times` runs of curl: a process each, nothing is kept between them."""

    def scene(world: World, keys: Path) -> None:
        for _ in range(times):
            curl(world, keys, *words, *outputs(1), f"https://{HOST}:{port}/")

    return scene


def resumed(port: int, *words: str) -> Scene:
    """Connections of one curl that resumes sessions: the server or the client ends each."""
    return asked(port, times=4, words=("--http1.1", "-H", "Connection: close", *words))


def go(port: int, count: int, *words: str, path: str = "") -> Scene:
    def scene(world: World, keys: Path) -> None:
        argv = [
            str(world.go),
            "get",
            str(world.folder / "cert.pem"),
            str(count),
            *words,
            f"https://{HOST}:{port}/{path}",
        ]
        world.run(argv, keys=keys)

    return scene


def node(port: int, count: int, mode: str, path: str = "") -> Scene:
    def scene(world: World, keys: Path) -> None:
        argv = ["node", f"--tls-keylog={keys}", str(HERE / "peer.mjs"), "get", str(world.folder / "cert.pem")]
        world.run([*argv, str(count), mode, f"https://{HOST}:{port}/{path}"])

    return scene


def python(code: str) -> Scene:
    def scene(world: World, keys: Path) -> None:
        head = f"import ssl, http.client, urllib.request\nca = {str(world.folder / 'cert.pem')!r}\n"
        head += "context = ssl.create_default_context(cafile=ca)\n"
        world.run([sys.executable, "-c", head + code], keys=keys)

    return scene


def s_client(ciphers: tuple[str, ...], version: str, *, update: bool = False) -> Scene:
    """OpenSSL's own programs, a connection for each suite."""

    def scene(world: World, keys: Path) -> list[dict[str, Any]]:
        port, truth = 8700, []
        server = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", f"{world.folder}/cert.pem"]
        server += ["-key", f"{world.folder}/key.pem", "-quiet", "-rev", "-cipher", "ALL:@SECLEVEL=0"]
        server += ["-ciphersuites", ":".join(CIPHERS_13)]
        with world.server(server, port):
            for number, cipher in enumerate(ciphers):
                local = 20000 + port + number + (50 if update else 0)
                argv = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-bind", f"127.0.0.1:{local}"]
                argv += ["-servername", "api.lab.test", f"-{version}", "-keylogfile", str(keys), "-nocommands"]
                argv += ["-cipher", f"{cipher}:@SECLEVEL=0"] if version != "tls1_3" else ["-ciphersuites", cipher]
                if update:
                    argv.remove("-nocommands")
                said = world.run(argv, text="hello\nK\nagain\nQ\n" if update else "hello\nhello again\n")
                agreed = next((line for line in said.splitlines() if "Cipher is" in line), "")
                words = agreed.replace(",", "").split()
                if words and words[-1] != "(NONE)":
                    truth.append({
                        "server_port": port, "client_port": local, "version": VERSIONS[version], "cipher": words[-1],
                        "reused": words[0] == "Reused", "sni": "api.lab.test",
                    })  # fmt: skip
        return truth

    return scene


def early(world: World, keys: Path) -> list[dict[str, Any]]:
    """A session, then early data with it: accepted by one server, refused by another with the same ticket keys."""
    session, request = world.folder / "session", world.folder / "request"
    request.write_bytes(b"GET /index.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    truth = []
    for number, (port, words) in enumerate(
        [(8453, ["-sess_out", str(session)]), (8453, ["-sess_in", str(session), "-early_data", str(request)])]
    ):
        local = 28600 + number
        argv = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-bind", f"127.0.0.1:{local}", "-ign_eof"]
        argv += ["-servername", "localhost", "-tls1_3", "-keylogfile", str(keys), *words]
        said = world.run(argv, text="" if number else request.read_text())
        truth.append({"server_port": port, "client_port": local,
                      "early": "accepted" if "was accepted" in said else "none"})  # fmt: skip
    return truth


def ticket_12(world: World, keys: Path) -> None:
    """A session of TLS 1.2 with a ticket, twice resumed."""
    session = world.folder / "session12"
    request = "GET /index.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for words in (["-sess_out", str(session)], ["-sess_in", str(session)], ["-sess_in", str(session)]):
        argv = ["openssl", "s_client", "-connect", "127.0.0.1:8402", "-ign_eof", "-servername", "localhost", "-tls1_2"]
        world.run([*argv, "-keylogfile", str(keys), *words], text=request)


def failed(world: World, keys: Path) -> list[dict[str, Any]]:
    """A client that trusts nobody, and one without a common version."""
    world.run(["curl", "-s", "--max-time", "5", f"https://{HOST}:8413/"], keys=keys)
    world.run(["curl", "-s", "--max-time", "5", f"https://{HOST}:8412/"], keys=keys)
    curl(world, keys, "--tls-max", "1.2", f"https://{HOST}:8413/")
    return [{"server_port": port, "failed": True} for port in (8413, 8412, 8413)]


def mixed(world: World, keys: Path) -> None:
    """Several programs one after the other."""
    for scene in (again(8413, 2), asked(8080, times=3), resumed(8412), node(8414, 2, "agent"), asked(8433, times=2)):
        scene(world, keys)


SCENES: dict[str, Scene] = {
    "curl-12-reuse": asked(8412, times=5, words=("--http1.1",)),
    "curl-13-reuse": asked(8413, times=5, words=("--http1.1",)),
    "curl-13-per-process": again(8413, 4),
    "curl-12-per-process": again(8412, 4),
    "curl-12-ticket": resumed(8412),
    "curl-13-psk": resumed(8413),
    "ticket-12": ticket_12,
    "curl-12-session-id": resumed(8422, "--tls-max", "1.2"),
    "curl-12-no-session": resumed(8424),
    "curl-13-stateful": resumed(8423),
    "server-closes-12": asked(8462, times=4, words=("--http1.1",)),
    "server-closes-13": asked(8463, times=4, words=("--http1.1",)),
    "max-requests": asked(8443, times=8, words=("--http1.1",)),
    "hello-retry": resumed(8473),
    "http2-12": asked(8432, times=5, words=("--http2",)),
    "http2-13": asked(8433, times=8, words=("--http2", "--parallel")),
    "http2-large": asked(8433, path="large", times=2, words=("--http2",)),
    "large-13": asked(8413, path="large", times=3, words=("--http1.1",)),
    "large-12": asked(8412, path="large", times=2, words=("--http1.1",)),
    "plain-reuse": asked(8080, times=6),
    "plain-large": asked(8080, path="large", times=3),
    "plain-http2": asked(8081, times=4, words=("--http2-prior-knowledge",)),
    "plain-upgrade": asked(8081, times=2, words=("--http2-prior-knowledge", "--parallel")),
    "plain-post": asked(PLAIN, times=3, words=("-d", "x" * 3000)),
    "plain-sse": asked(PLAIN, path="sse", times=2),
    "sse-13": asked(PYTHON, path="sse", times=2),
    "sse-proxied": asked(8413, path="api/sse", times=2, words=("--http1.1",)),
    "errors-404": asked(8413, path="status/404", times=3, words=("--http1.1",)),
    "errors-429": asked(8080, path="status/429", times=3),
    "errors-500-h2": asked(8433, path="status/500", times=3, words=("--http2",)),
    "go-no-cache": go(GO, 3, "close"),
    "go-cache": go(GO, 4, "close", "cache"),
    "go-reuse": go(GO, 5),
    "go-h2": go(GO_H2, 5, "h2"),
    "go-nginx": go(8414, 3, "close", "cache"),
    "node-agent": node(NODE, 5, "agent"),
    "node-single": node(NODE, 3, "single"),
    "node-resumes": node(NODE, 4, "cache"),
    "node-h2": asked(NODE_H2, times=4, words=("--http2",)),
    "node-go": node(GO, 3, "cache", "status/503"),
    "python-urllib": python(
        f"for _ in range(3): urllib.request.urlopen('https://localhost:{PYTHON}/', context=context).read()"
    ),
    "python-kept": python(
        f"c = http.client.HTTPSConnection('localhost', {PYTHON}, context=context)\n"
        "for _ in range(5): c.request('GET', '/status/404'); c.getresponse().read()"
    ),
    "python-12": python(
        "context.maximum_version = ssl.TLSVersion.TLSv1_2\n"
        "for _ in range(3): urllib.request.urlopen('https://localhost:8414/', context=context).read()"
    ),
    "suites-12": s_client(CIPHERS_12, "tls1_2"),
    "suites-11": s_client(("AES128-SHA", "ECDHE-RSA-AES256-SHA"), "tls1_1"),
    "suites-13": s_client(CIPHERS_13, "tls1_3"),
    "key-update": s_client(CIPHERS_13[:1], "tls1_3", update=True),
    "early-data": early,
    "failed": failed,
    "mixed": mixed,
}
"""Name → what happens. What is returned is truth that no server's log has."""

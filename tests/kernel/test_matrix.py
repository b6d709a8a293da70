# SPDX-License-Identifier: Apache-2.0
"""Every client library against every server: each request on its connection, as the server's own log has it.

Nothing that was planted (key, cookie, prompt, query, answer) may be found in anything that netdiag writes. In the suite
each client and each server takes part at least once; NETDIAG_FULL=1 takes all pairs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.matrix_servers import CLIENTS, SERVERS, Serving, built_go

pytestmark = pytest.mark.kernel

FULL = os.environ.get("NETDIAG_FULL") == "1"
ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / ".cache" / "npm"
CHAT = "/v1/chat/completions?key=planted-query-7f3a"
PLAN = [
    ["GET", "/v1/models?key=planted-query-7f3a", False],
    ["POST", CHAT, False],
    ["GET", "/missing", False],
    ["POST", CHAT, True],
    ["HEAD", "/v1/models", False],
    ["GET", "/nothing", False],
    ["GET", "/items/0123456789abcdef0123456789abcdef", False],
    ["GET", "/large", False],
]
PLANTED = [f"planted-{word}".encode() for word in ("key", "cookie", "prompt", "query", "answer")]
PYTHON = (
    "requests", "urllib3", "httpx", "httpx-h2", "httpx-async", "httpx-async-h2", "aiohttp", "openai", "openai-async",
    "pycurl", "pycurl-h2", "pyreqwest",
)  # fmt: skip
NODE = ("fetch", "https", "undici", "undici-h2")
ALL = (*PYTHON, *NODE, "curl", "curl-h2", "go-h1", "go-h2")
SHORT = (
    ("nginx", "requests"), ("nginx-h2", "curl-h2"), ("nginx-proxy", "openai"), ("nginx-unbuffered", "fetch"),
    ("uvicorn", "aiohttp"), ("hypercorn", "httpx-async-h2"), ("hypercorn", "undici-h2"), ("go", "go-h1"),
    ("go", "pyreqwest"),
)  # fmt: skip
PAIRS = [(server, client) for server in SERVERS for client in ALL] if FULL else SHORT
LATE = ("pycurl", "pycurl-h2")
"""Load a TLS library of their own, under a name that nobody knows before: their first requests may be missed."""
HIDDEN = ("pyreqwest",)
"""Have rustls inside: seen on the wire only."""


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = built_go(tmp_path_factory.mktemp("go"))
    if made is None:
        pytest.skip("needs the Go compiler")
    return made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def command(client: str, serving: Serving, python: str, go: str) -> list[str]:
    """Return the command line of a client."""
    url, ca, plan = f"https://localhost:{serving.port}", str(serving.ca), json.dumps(PLAN)
    if client in NODE:
        return ["node", str(CLIENTS / "matrix.mjs"), client, url.replace("localhost", "127.0.0.1"), ca, plan]
    if client.startswith("curl"):
        words = ["curl", "-4s", "--cacert", ca, "--http2" if client == "curl-h2" else "--http1.1"]
        for number, (method, target, stream) in enumerate(PLAN):
            body = json.dumps({"model": "m-1", "stream": stream, "messages": [{"content": "planted-prompt-7f3a"}]})
            words += ["--next", "-4s", "--cacert", ca, words[4]] if number else []
            words += ["-o", "/dev/null", "-H", "Authorization: Bearer planted-key-7f3a", "-b", "session=planted-cookie"]
            words += {"HEAD": ["-I"], "POST": ["-d", body]}.get(str(method), [])
            words.append(f"{url}{target}")
        return words
    if client.startswith("go-"):
        return [go, client[3:], url, ca, plan]
    return [python, "-W", "ignore", str(CLIENTS / "matrix.py"), client, url, ca, plan]


def traced(tmp_path: Path, *argv: str, status: int = 0) -> tuple[dict[str, Any], bytes]:
    """Trace a command; return the document, and all that netdiag wrote anywhere."""
    temporary, state = tmp_path / "temporary", tmp_path / "state"
    temporary.mkdir()
    out, saved = tmp_path / "out.json", tmp_path / "saved.netdiag"
    env = {**os.environ, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(state), "NODE_MODULES": str(MODULES)}
    env |= {"NODE_EXTRA_CA_CERTS": str(tmp_path / "cert.pem")}
    netdiag = [sys.executable, "-m", "netdiag"]
    options = ["--as-root", "-v", "--save", str(saved), "--format", "json", "-o", str(out)]
    words = [*netdiag, "trace", *options, "--", *argv]
    done = subprocess.run(words, capture_output=True, env=env, timeout=120, check=False)
    assert done.returncode == status, done.stderr.decode()[-1500:]
    wrote = done.stderr + out.read_bytes() + saved.read_bytes()  # stdout is the command's own
    for path in (*temporary.rglob("*"), *state.rglob("*")):
        wrote += path.read_bytes() if path.is_file() else b""
    return json.loads(out.read_text()), wrote


def masked(path: str) -> str:
    """Return a path as it may be told."""
    return re.sub(r"[0-9a-f]{32}", "{…}", path)


def told(document: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """Return what was seen in plaintext, by the client's port."""
    port_of = {each["id"]: each["local"]["port"] for each in document["connections"]}
    rows = [each for each in document["requests"] if each["source"] == "plaintext"]
    assert all(each["connection"] is not None for each in rows), "a request without its connection"
    return Counter((port_of[r["connection"]], r["method"], r["path"], r["status"]) for r in rows)


def real(answered: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return what the server wrote down, in the same form."""
    return Counter((a["port"], a["method"], masked(a["path"]), a["status"]) for a in answered)


def agree(document: dict[str, Any], answered: list[dict[str, Any]], serving: Serving) -> None:
    """Compare what was traced with what the server wrote down."""
    assert told(document) == real(answered)
    rows = document["requests"]
    assert len(rows) == len(answered), "requests that nobody made"
    assert all(r["complete"] and r["error"] is None for r in rows)
    assert {r["protocol"].upper().replace("H2", "HTTP/2.0") for r in rows} == {
        a["protocol"].replace("HTTP/2", "HTTP/2.0").replace(".0.0", ".0") for a in answered
    }
    for protocol in ("http/1.1", "h2"):
        sizes(
            sorted(
                (r["path"], r["status"], r["method"], r["response_bytes"]) for r in rows if r["protocol"] == protocol
            ),
            sorted(
                (masked(a["path"]), a["status"], a["method"], a["sent"])
                for a in answered
                if (a["protocol"] in ("HTTP/2.0", "HTTP/2")) == (protocol == "h2")
            ),
        )
    for asked in rows:
        if asked["path"] == "/v1/chat/completions":
            assert asked["model"] == "m-1" or not serving.streams  # nginx alone answers before it read the body
            if serving.streams and asked["stream_asked"]:
                assert asked["stream"] is not None, asked
                assert (asked["stream"]["kind"], asked["stream"]["finished"]) == ("sse", True)
                assert asked["stream"]["first_token_ms"] is not None
                assert asked["stream"]["chunks"] >= 1  # a proxy that waits for all of it makes one of all
            elif serving.streams:
                assert (asked["stream"], asked["output_tokens"]) == (None, 3)


def sizes(seen: list[tuple[Any, ...]], wrote: list[tuple[Any, ...]]) -> None:
    """Bytes of an answer are those of its body, and what frames them."""
    for (*what, bytes_told), (*_, sent) in zip(seen, wrote, strict=True):
        assert sent <= bytes_told <= sent + 2000, (what, bytes_told, sent)


@pytest.mark.parametrize(("server", "client"), PAIRS)
def test_each_request_is_told_as_the_server_has_it(
    server: str, client: str, lab_python: str, go: str, tmp_path: Path, stack: ExitStack
) -> None:
    if client in NODE and shutil.which("node") is None:
        pytest.skip("needs node")
    if client.startswith("undici") and not (MODULES / "node_modules" / "undici").exists():
        pytest.skip("needs undici in .cache/npm: scripts/setup installs it")
    serving = stack.enter_context(SERVERS[server](tmp_path, lab_python, go))
    document, wrote = traced(tmp_path, *command(client, serving, lab_python, go))
    count = 2 if client.startswith("openai") else len(PLAN)
    answered = serving.answered(count)
    assert len(answered) == count, "the client did not do as it was told"
    assert all(event["lost"] == 0 for event in document["coverage"]["events"])
    if client in HIDDEN:
        assert {each["source"] for each in document["requests"]} <= {"records"}
    elif client in LATE:
        assert len(document["requests"]) == len(answered) or serving.h2
        assert told(document) <= real(answered)
    else:
        agree(document, answered, serving)
    for word in PLANTED:
        assert word not in wrote, word

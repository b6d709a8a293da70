# SPDX-License-Identifier: Apache-2.0
"""Requests of real clients in plaintext: on the right connection, each once, timed right, and nothing leaked."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys

import pytest

from tests.kernel.requests_server import Server

pytestmark = pytest.mark.kernel

FURTHER = ("openai", "node") if os.environ.get("NETDIAG_FULL") == "1" else ()

SECRETS = ("planted-key-7f3a", "planted-prompt-7f3a", "planted-query-7f3a", "planted-cookie-7f3a", "planted-answer")
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": SECRETS[1]}]}
FIELDS = {"Authorization": f"Bearer {SECRETS[0]}", "Cookie": f"session={SECRETS[3]}"}
CLIENTS = {
    "requests": (
        "import requests; s=requests.Session()\nfor p in P: s.post(U+p, json=B, headers=H, verify=False).content"
    ),
    "httpx": "import httpx; c=httpx.Client(verify=False)\nfor p in P: c.post(U+p, json=B, headers=H).read()",
    "urllib3": (
        "import urllib3; m=urllib3.PoolManager(cert_reqs='CERT_NONE')\n"
        "for p in P: m.request('POST', U+p, body=json.dumps(B), headers=H|{'content-type':'application/json'}).data"
    ),
    "aiohttp": (
        "import asyncio, aiohttp\nasync def main():\n"
        " async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as s:\n"
        "  for p in P:\n   async with s.post(U+p, json=B, headers=H) as a: await a.read()\nasyncio.run(main())"
    ),
    "openai": (
        "import httpx, openai\n"
        "for p in P:\n"
        " c=openai.OpenAI(base_url=U+p.partition('?')[0], api_key=H['Authorization'][7:],"
        " http_client=httpx.Client(verify=False))\n"
        " for _ in c.chat.completions.create(**B, extra_headers={'Cookie': H['Cookie']}, extra_query={'k': Q}): pass"
    ),
}
NODE = """
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"; import https from "node:https";
const [U, P, B, H] = JSON.parse(process.argv[2]); const agent = new https.Agent({ keepAlive: true });
for (const p of P) await new Promise((done) => {
  const r = https.request(U + p, { method: "POST", agent, headers: { ...H, "content-type": "application/json" } },
    (a) => { a.resume(); a.on("end", done); });
  r.end(JSON.stringify(B)); });
agent.destroy();
"""
MANY = """
import asyncio, sys, json
url, words = json.loads(sys.argv[1])
async def with_httpx():
    import httpx
    limits = httpx.Limits(max_connections=len(words), max_keepalive_connections=len(words))
    async with httpx.AsyncClient(verify=False, timeout=60, limits=limits) as client:
        async def one(word):
            for turn in "ab":
                async with client.stream("POST", f"{url}/{word}/{turn}", json={"model": "m", "stream": True}) as answer:
                    async for _ in answer.aiter_lines(): pass
        await asyncio.gather(*map(one, words))
async def with_aiohttp():
    import aiohttp
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False, limit=len(words))) as session:
        async def one(word):
            for turn in "ab":
                async with session.post(f"{url}/{word}/{turn}", json={"model": "m", "stream": True}) as answer:
                    await answer.read()
        await asyncio.gather(*map(one, words))
async def with_openai():
    import httpx, openai
    limits = httpx.Limits(max_connections=len(words), max_keepalive_connections=len(words))
    http = httpx.AsyncClient(verify=False, timeout=60, limits=limits)
    client = openai.AsyncOpenAI(base_url=url, api_key="planted", http_client=http)
    async def one(word):
        for turn in "ab":
            mine = client.with_options(base_url=f"{url}/{word}/{turn}")
            async for _ in await mine.chat.completions.create(model="m", messages=[], stream=True): pass
    await asyncio.gather(*map(one, words))
asyncio.run(globals()["with_" + sys.argv[2]]())
"""
MANY_IN_NODE = """
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"; import https from "node:https";
const [url, words] = JSON.parse(process.argv[2]);
const agent = new https.Agent({ keepAlive: true, maxSockets: words.length });
const ask = (path) => new Promise((done) => {
  const r = https.request(url + path, { method: "POST", agent, headers: { "content-type": "application/json" } },
    (a) => { a.resume(); a.on("end", done); });
  r.end(JSON.stringify({ model: "m", stream: true })); });
await Promise.all(words.map(async (word) => { for (const turn of "ab") await ask(`/${word}/${turn}`); }));
agent.destroy();
"""


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made.close()


def traced(tmp_path, *command):
    """Trace a command; return the document and all that netdiag wrote anywhere."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(tmp_path / "state")}
    out, saved = tmp_path / "out.json", tmp_path / "saved.netdiag"
    netdiag = [sys.executable, "-m", "netdiag"]
    options = ["--as-root", "--save", str(saved), "--format", "json", "-o", str(out)]
    done = subprocess.run(
        [*netdiag, "trace", "-v", *options, "--", *command], capture_output=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-500:]
    wrote = done.stderr + out.read_bytes() + saved.read_bytes()  # stdout is the command's own
    report = subprocess.run([*netdiag, "analyze", str(saved)], capture_output=True, env=env, timeout=60, check=False)
    dump = subprocess.run([*netdiag, "dump", str(saved)], capture_output=True, env=env, timeout=60, check=False)
    wrote += report.stdout + dump.stdout
    for folder in (temporary, tmp_path / "state"):
        wrote += b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return json.loads(out.read_text()), wrote


def command_of(client, server, lab_python, tmp_path):
    paths = [f"/v1/{word}?k={SECRETS[2]}" for word in ("one", "two", "three")]
    url = f"https://127.0.0.1:{server.port}"
    if client == "node":
        if shutil.which("node") is None:
            pytest.skip("needs node")
        (tmp_path / "client.mjs").write_text(NODE)
        return ["node", str(tmp_path / "client.mjs"), json.dumps([url, paths, BODY, FIELDS])]
    if client == "curl":
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        fields = [part for name, value in FIELDS.items() for part in ("-H", f"{name}: {value}")]
        return ["curl", "-sk", "-o", "/dev/null", *fields, "-d", json.dumps(BODY), *(url + path for path in paths)]
    names = "import json, warnings; warnings.simplefilter('ignore')\n"
    names += f"U, P, B, H, Q = {url!r}, {paths!r}, {BODY!r}, {FIELDS!r}, {SECRETS[2]!r}\n"
    (tmp_path / "client.py").write_text(names + CLIENTS[client])
    return [lab_python, str(tmp_path / "client.py")]


@pytest.mark.parametrize("client", [*CLIENTS, "node", "curl"])
def test_requests_are_told_and_nothing_that_is_secret(tmp_path, server, lab_python, client):
    document, wrote = traced(tmp_path, *command_of(client, server, lab_python, tmp_path))
    for secret in SECRETS:
        assert secret.encode() not in wrote
    told = [row for row in document["requests"] if row["source"] == "plaintext"]
    assert len(document["requests"]) == len(told) == 3
    ports = {row["id"]: row["local"]["port"] for row in document["connections"]}
    assert {row["path"]: ports[row["connection"]] for row in told} == {
        path: port for path, (port, _) in server.asked.items()
    }
    for row in told:
        assert (row["method"], row["status"], row["model"], row["protocol"]) == ("POST", 200, "m", "http/1.1")
        assert row["host"] == "127.0.0.1"
        assert (row["stream"]["kind"], row["stream"]["finished"]) == ("sse", True)


@pytest.mark.parametrize("library", ["httpx", "aiohttp", *FURTHER])
def test_two_hundred_connections_on_one_loop(tmp_path, server, lab_python, library):
    words = ["".join(letters) for letters in itertools.product("bcdfg", "aeiou", "klmnp", "ae")][:200]
    what = json.dumps([f"https://127.0.0.1:{server.port}", words])
    script = tmp_path / ("many.mjs" if library == "node" else "many.py")
    script.write_text(MANY_IN_NODE if library == "node" else MANY)
    document, _ = traced(tmp_path, "node" if library == "node" else lab_python, str(script), what, library)
    ports = {row["id"]: row["local"]["port"] for row in document["connections"]}
    told = {}
    for row in document["requests"]:
        assert row["source"] == "plaintext"
        assert row["path"] not in told, "told twice"
        told[row["path"]] = ports[row["connection"]]
    assert told == {path: port for path, (port, _) in server.asked.items()}
    assert not [row for row in document["coverage"]["events"] if row["lost"]]


def test_gaps_are_those_that_the_server_made(tmp_path, server, lab_python):
    document, _ = traced(tmp_path, *command_of("httpx", server, lab_python, tmp_path))
    errors = []
    for row in document["requests"]:
        stamps = server.asked[row["path"]][1]
        true = [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(stamps)]
        errors.append(abs(row["stream"]["gap_p50_ms"] - statistics.median(true)))
        parts = (
            "dns",
            "connect",
            "client_setup",
            "tls",
            "queue",
            "send",
            "wait",
            "receive",
            "reader_lag",
            "unattributed",
        )
        assert sum(row[f"{part}_ms"] or 0 for part in parts) == pytest.approx(row["total_ms"], abs=0.01)
    assert min(errors) < 1

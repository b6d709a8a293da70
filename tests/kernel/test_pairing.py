# SPDX-License-Identifier: Apache-2.0
"""Every answer belongs to its own request: the path asks for a status, so each request tells which one is right.

NETDIAG_REPEAT runs each program so many times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from netdiag.lab import certificate

pytestmark = pytest.mark.kernel

REPEAT = int(os.environ.get("NETDIAG_REPEAT", "1"))
SEED = int(os.environ.get("NETDIAG_SEED") or random.randrange(1_000_000))
STATUSES = {"a": 200, "b": 404, "c": 503, "d": 500, "e": 201, "f": 429, "g": 401, "h": 400}
MODULES = Path(__file__).resolve().parents[2] / ".cache" / "npm"

PYTHON = "import sys, json, ssl; U, P = json.loads(sys.argv[1])\n"
NODE = (
    'process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";'
    f'const {{createRequire}} = require("module"), load = createRequire({json.dumps(str(MODULES / "x.js"))});'
    "const [U, P] = JSON.parse(process.argv[1]); (async () => { %s process.exit(0); })();"
)
ASYNCIO = """
import asyncio
async def main():
    plain = ssl.create_default_context(); plain.check_hostname = False; plain.verify_mode = ssl.CERT_NONE
    port = int(U.rpartition(":")[2])
    async def one(paths):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=plain)
        for path in paths:
            writer.write(f"POST {path} HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 3\\r\\n\\r\\nabc".encode())
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
        writer.close()
    await asyncio.gather(one(P), one(P[::-1]))
asyncio.run(main())
"""
PROGRAMS = {
    "fetch": ("node", "for (const p of P) await (await fetch(U + p, {method: 'POST', body: 'abc'})).text();"),
    "fetch-together": ("node", "await Promise.all(P.map(async p => (await fetch(U + p)).text()));"),
    "https": (
        "node",
        (
            "const https = require('https'), agent = new https.Agent({keepAlive: true}); for (const p of P)"
            " await new Promise(done => { const r = https.request(U + p, {method: 'POST', agent},"
            " a => { a.resume(); a.on('end', done); }); r.end('abc'); });"
        ),
    ),
    "undici": (
        "npm",
        (
            "const {Pool} = load('undici'); const pool = new Pool(U, {connect: {rejectUnauthorized: false}});"
            "for (const p of P) await (await pool.request({path: p, method: 'POST', body: 'abc'})).body.text();"
        ),
    ),
    "undici-pipelining": (
        "npm",
        (
            "const {Client} = load('undici');"
            "const c = new Client(U, {pipelining: 4, connect: {rejectUnauthorized: false}});"
            "await Promise.all(P.map(async p => (await c.request({path: p, method: 'GET'})).body.text()));"
        ),
    ),
    "openai-node": (
        "npm",
        (
            "const {OpenAI} = load('openai'); for (const p of P) { const c = new OpenAI({apiKey: 'k', baseURL: U + p,"
            "maxRetries: 1}); try { await c.chat.completions.create({model: 'm', messages: []}); } catch {} }"
        ),
    ),
    "asyncio": ("python", ASYNCIO),
    "requests": ("lab", "import requests; s = requests.Session()\nfor p in P: s.post(U + p, data='abc', verify=False)"),
    "httpx": ("lab", "import httpx; c = httpx.Client(verify=False)\nfor p in P: c.post(U + p, content='abc')"),
    "aiohttp": (
        "lab",
        (
            "import asyncio, aiohttp\nasync def main():\n"
            " async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as s:\n"
            "  for p in P:\n   async with s.post(U + p, data='abc') as a: await a.read()\nasyncio.run(main())"
        ),
    ),
    "curl": ("shell", "for p in $P; do curl -sk -o /dev/null -d abc $U$p; done"),
    "curl-session": ("shell", "set --; for p in $P; do set -- $@ -o /dev/null $U$p; done; curl -sk $@"),
}


class Server:
    """An HTTPS server whose answer's status is what the path asks for; `asked` counts them."""

    def __init__(self, folder):
        key, cert = certificate.make(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.asked = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            with self._context.wrap_socket(sock, server_side=True) as secure:
                left = b""
                while data := secure.recv(65536):
                    left += data
                    while b"\r\n\r\n" in left:
                        head, _, left = left.partition(b"\r\n\r\n")
                        lower = head.lower()
                        size = int(lower.split(b"content-length:")[1].split()[0]) if b"content-length:" in lower else 0
                        while len(left) < size:
                            left += secure.recv(65536)
                        left = left[size:]
                        letter = head.split()[1].decode().split("/")[1].removeprefix("want-")
                        self.asked.append(letter)
                        time.sleep(0.003)
                        body = b"{}" + b" " * 20
                        head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (STATUSES[letter], len(body))
                        secure.sendall(head + body)
        except OSError:
            return


@pytest.fixture
def server(keep, tmp_path):
    return keep(Server(tmp_path))


def command(kind, text, url, paths, lab_python):
    """Return the command line of a program; skip where it cannot run."""
    said = json.dumps([url, paths])
    if kind == "shell":
        return ["env", f"U={url}", f"P={' '.join(paths)}", "sh", "-c", text]
    if kind in ("node", "npm"):
        if shutil.which("node") is None:
            pytest.skip("needs node")
        if kind == "npm" and not (MODULES / "node_modules" / "openai").exists():
            pytest.skip("openai and undici are not in .cache/npm: scripts/setup installs them")
        return ["node", "-e", NODE % text, said]
    python = lab_python if kind == "lab" else sys.executable
    return [python, "-W", "ignore", "-c", PYTHON + text, said]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_status_is_that_of_another_request(program, server, tmp_path, request):
    kind, text = PROGRAMS[program]
    lab_python = request.getfixturevalue("lab_python") if kind == "lab" else None
    draw = random.Random(SEED)
    told = unknown = asked = 0
    for _ in range(REPEAT):
        paths = [f"/want-{draw.choice(sorted(STATUSES))}" for _ in range(12)]
        argv = command(kind, text, f"https://127.0.0.1:{server.port}", paths, lab_python)
        server.asked.clear()
        out = tmp_path / "out.json"
        trace = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--format", "json", "-o", str(out), "--", *argv]
        done = subprocess.run(trace, capture_output=True, timeout=60, check=False)
        assert out.exists(), done.stderr.decode()
        asked += len(server.asked)
        assert server.asked, done.stderr.decode()
        for entry in json.loads(out.read_text())["requests"]:
            if entry["path"] is None:
                continue
            told += 1
            unknown += entry["status"] is None
            right = STATUSES[entry["path"].split("/")[1].removeprefix("want-")]
            assert entry["status"] in (None, right), (SEED, entry)
    sys.stdout.write(f"{program}: asked {asked}, told {told}, of them {unknown} without status\n")
    assert told <= asked
    if kind != "shell" and program != "undici-pipelining":  # some begin at once, others are told where it is sure
        assert told - unknown == asked

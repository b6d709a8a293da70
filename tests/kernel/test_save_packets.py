# SPDX-License-Identifier: Apache-2.0
"""`netdiag trace --save-packets` in a namespace of its own: tshark decodes the handshakes and shows whose they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netdiag.lab import certificate
from tests.kernel.harness import Namespace, until

pytestmark = pytest.mark.kernel

PEER = Path(__file__).parents[1] / "captures" / "peer.py"
PORT = 18621
CLIENT = f"""
import ssl, urllib.request
context = ssl.create_default_context(cafile="cert.pem")
for _ in range(5):
    urllib.request.urlopen("https://localhost:{PORT}/?key=s3cr3t", context=context).read()
"""


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not here")
def test_wireshark_opens_the_evidence(tmp_path):
    key, cert = certificate.make(tmp_path)
    pair, file = tmp_path / "pair.pem", tmp_path / "evidence.pcapng"
    pair.write_bytes(key.read_bytes() + cert.read_bytes())
    with Namespace() as inside:
        server = subprocess.Popen(
            inside.command(sys.executable, str(PEER), "serve", str(PORT), str(pair), str(tmp_path / "truth"))
        )
        try:
            until(lambda: f":{PORT}" in inside.run("ss", "-Hltn"))
            argv = [sys.executable, "-m", "netdiag", "trace", "--no-keep", "--save-packets", str(file), "--"]
            done = subprocess.run(
                inside.command(*argv, sys.executable, "-c", CLIENT),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            server.terminate()
            server.wait(10)
    assert f"{file}: " in done.stderr
    assert "packets of 5 connections that findings name" in done.stderr
    fields = [
        "-e",
        "tcp.stream",
        "-e",
        "tls.handshake.extensions_server_name",
        "-e",
        "frame.comment",
        "-e",
        "tcp.flags.syn",
    ]
    shown = subprocess.run(["tshark", "-r", file, "-T", "fields", *fields], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert {stream for stream, name, _, _ in rows if name == "localhost"} == {"0", "1", "2", "3", "4"}
    comments = [comment for _, _, comment, _ in rows if comment]
    assert len(comments) == 5
    assert [comment for comment in comments if "(pid " not in comment or "reuse.client-asks-close" not in comment] == []
    assert b"s3cr3t" not in file.read_bytes()
    assert b"answer answer" not in file.read_bytes()

# SPDX-License-Identifier: Apache-2.0
"""A throw-away certificate for loopback, made by the `openssl` command."""

from __future__ import annotations

import subprocess
from pathlib import Path

from netdiag.errors import Unsupported

__all__ = ["make"]

NAMES = "subjectAltName=DNS:localhost,DNS:api.lab.test,IP:127.0.0.1,IP:::1"


def make(folder: Path, *, padding: int = 0) -> tuple[Path, Path]:
    """Write `key.pem` and `cert.pem` into `folder` and return both paths; `padding` more names make it larger.

    An EC key is made in a millisecond and is what most API hosts have. Without `openssl` it raises Unsupported.
    """
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", NAMES + "".join(f",DNS:padding{number:05d}.lab.test" for number in range(padding))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unsupported("the lab needs the openssl command", hint="apt install openssl") from error
    if done.returncode:
        raise Unsupported(
            f"openssl made no certificate: {done.stderr.strip()[-200:]}", hint="it must be 1.1.1 or newer"
        )
    return key, cert

# SPDX-License-Identifier: Apache-2.0
"""An nginx between the lab's client and its server, for faults that sit on the leg behind a proxy."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from netdiag.errors import Unsupported

__all__ = ["Proxy", "free_port"]

CONFIG = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream api {{ server 127.0.0.1:{upstream}; {keepalive} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://api; {hop} }}
  }}
}}
"""


class Proxy:
    """A running nginx. `keepalive` 0 keeps no upstream connection; `http11` speaks HTTP/1.1 there."""

    def __init__(self, settings: Mapping[str, Any], upstream: int, folder: Path) -> None:
        self.port = free_port()
        kept = int(settings.get("keepalive", 0))
        keepalive = f"keepalive {kept};" if kept else ""
        hop = 'proxy_http_version 1.1; proxy_set_header Connection "";' if settings.get("http11", True) else ""
        self._config = folder / "nginx.conf"
        names = {"folder": folder, "upstream": upstream, "keepalive": keepalive, "hop": hop, "port": self.port}
        self._config.write_text(CONFIG.format(**names))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            raise Unsupported("this scenario puts nginx in front of the server", hint="apt install nginx-light")
        self._process = subprocess.Popen([nginx, "-c", str(self._config)], stderr=subprocess.DEVNULL)
        wait_for(self.port)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    @property
    def pid(self) -> int:
        """Process id of nginx, which serves in its first process."""
        if self._process is None:
            raise ValueError("the proxy is not running")
        return self._process.pid


def free_port() -> int:
    """Return a port of loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until something listens on a port of loopback, up to five seconds."""
    deadline = time.monotonic() + 5
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise Unsupported(f"nothing listens on port {port}") from error
            time.sleep(0.02)
        else:
            return

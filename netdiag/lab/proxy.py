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
from netdiag.lab.certificate import make
from netdiag.lab.network import HostNetwork, Network

__all__ = ["Proxy", "free_port"]

OF_SERVER = ("http2_", "ssl_", "keepalive_requests")
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
  upstream api {{ server {address}:{upstream}; {keepalive} }}
  server {{
    listen {address}:{port}{listen};
    {tls}
    location / {{ proxy_pass http://api; {hop} }}
  }}
}}
"""


class Proxy:
    """A running nginx.

    `keepalive` 0 keeps no upstream connection; `http11` speaks HTTP/1.1 there. `tls` and `http2` are for the client's
    side. `directives` are further ones, for its location or server: `proxy_buffering = "off"`.
    """

    def __init__(
        self, settings: Mapping[str, Any], upstream: int, folder: Path, net: Network | HostNetwork | None = None
    ) -> None:
        """`upstream` is the server's port; nginx runs beside it, in its namespace where it has one."""
        self.port = free_port()
        self._net = net or HostNetwork()
        self._folder = folder
        kept = int(settings.get("keepalive", 0))
        keepalive = f"keepalive {kept};" if kept else ""
        hop = 'proxy_http_version 1.1; proxy_set_header Connection "";' if settings.get("http11", True) else ""
        directives = settings.get("directives", {})
        # what is a server's own is refused in a location
        of_server = {name: value for name, value in directives.items() if name.startswith(OF_SERVER)}
        hop += " ".join(f"{name} {value};" for name, value in directives.items() if name not in of_server)
        self.tls = bool(settings.get("tls") or settings.get("http2"))
        tls = " ".join(f"{name} {value};" for name, value in of_server.items())
        if self.tls:
            key, chain = make(folder)
            tls += f" ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;"
        listen = (" ssl" if self.tls else "") + (" http2" if settings.get("http2") else "")
        self._config = folder / "nginx.conf"
        names = {"folder": folder, "upstream": upstream, "keepalive": keepalive, "hop": hop, "port": self.port}
        names |= {"tls": tls, "listen": listen, "address": self._net.address}
        self._config.write_text(CONFIG.format(**names))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            raise Unsupported("this scenario puts nginx in front of the server", hint="apt install nginx-light")
        argv = self._net.for_server([nginx, "-c", str(self._config)])
        self._process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        if isinstance(self._net, HostNetwork):
            wait_for(self.port)
        else:
            wait_for_file(self._folder / "nginx.pid")
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


def wait_for_file(path: Path) -> None:
    """Wait until nginx has written its number, which it does once it listens, up to five seconds."""
    deadline = time.monotonic() + 5
    while not path.exists() or not path.read_text().strip():
        if time.monotonic() > deadline:
            raise Unsupported("nginx did not start")
        time.sleep(0.02)


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

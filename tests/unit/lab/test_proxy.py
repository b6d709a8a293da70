# SPDX-License-Identifier: Apache-2.0
"""The nginx between client and server."""

from __future__ import annotations

import pytest

from netdiag.lab.proxy import Proxy, free_port


def test_a_free_port_is_a_port():
    assert 1024 < free_port() < 65536


@pytest.mark.parametrize(
    ("settings", "there", "not_there"),
    [
        ({"keepalive": 0, "http11": False}, [], ["keepalive", "proxy_http_version"]),
        ({"keepalive": 8, "http11": True}, ["keepalive 8;", "proxy_http_version 1.1"], []),
    ],
)
def test_the_upstream_leg_is_as_asked(tmp_path, settings, there, not_there):
    Proxy(settings, 4242, tmp_path)
    text = (tmp_path / "nginx.conf").read_text()
    assert "server 127.0.0.1:4242;" in text
    assert [word for word in there if word not in text] == []
    assert [word for word in not_there if word in text] == []


def test_a_proxy_that_does_not_run_has_no_pid(tmp_path):
    with pytest.raises(ValueError, match="not running"):
        Proxy({}, 4242, tmp_path).pid  # noqa: B018 - reading it is the act


def test_directives_go_where_nginx_wants_them(tmp_path):
    directives = {"proxy_buffering": "off", "http2_max_concurrent_streams": 4}
    proxy = Proxy({"http2": True, "directives": directives}, 4242, tmp_path)
    text = (tmp_path / "nginx.conf").read_text()
    assert proxy.tls
    assert " ssl http2;" in text
    server, location = text.split("location /")
    assert "http2_max_concurrent_streams 4;" in server
    assert "ssl_certificate" in server
    assert "proxy_buffering off;" in location

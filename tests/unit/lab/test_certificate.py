# SPDX-License-Identifier: Apache-2.0
"""The lab's certificate."""

from __future__ import annotations

import ssl

import pytest

from netdiag.errors import Unsupported
from netdiag.lab import certificate


def test_the_certificate_serves_loopback(tmp_path):
    key, cert = certificate.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=cert)
    assert [entry["subject"] for entry in trusting.get_ca_certs()] == [((("commonName", "localhost"),),)]


def test_more_names_make_it_larger(tmp_path):
    small = certificate.make(tmp_path)[1].stat().st_size
    assert certificate.make(tmp_path, padding=400)[1].stat().st_size > small + 400 * 25


def test_without_openssl_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported) as caught:
        certificate.make(tmp_path)
    assert "openssl" in str(caught.value.hint)

# SPDX-License-Identifier: Apache-2.0
"""Numbers of TLS have the names that people look up."""

from __future__ import annotations

import ssl

import pytest

from netdiag.decode.tls_names import ALERTS, CIPHERS, GROUPS, alert_name, cipher_name, group_name, is_grease
from netdiag.decode.tls_names import version_name as version


@pytest.mark.parametrize(
    ("number", "name"),
    [(0x0300, "SSLv3"), (0x0301, "TLSv1"), (0x0302, "TLSv1.1"), (0x0304, "TLSv1.3"), (0x7F17, "TLSv1.3-draft23")],
)
def test_versions(number, name):
    assert version(number) == name


def test_a_number_without_a_name_is_shown():
    assert (version(0x0305), version(0x7F1D), version(0x7F00)) == ("0x0305", "0x7f1d", "0x7f00")
    assert (cipher_name(0x13FF), group_name(0x0001), alert_name(200)) == ("0x13ff", "0x0001", "200")


def test_names():
    assert cipher_name(0x1302) == "TLS_AES_256_GCM_SHA384"
    assert (group_name(29), group_name(23), group_name(4588)) == ("X25519", "P-256", "X25519MLKEM768")
    assert (alert_name(0), alert_name(48), alert_name(120)) == ("close_notify", "unknown_ca", "no_application_protocol")


def test_no_name_is_given_twice():
    for names in (CIPHERS, GROUPS, ALERTS):
        assert len(set(names.values())) == len(names)


def test_ciphers_are_those_of_this_machines_library():
    """Its short names hold the same words as the registered ones."""
    known = {int(cipher["id"]) & 0xFFFF: str(cipher["name"]) for cipher in ssl.create_default_context().get_ciphers()}
    shared = [(name, CIPHERS[number]) for number, name in known.items() if number in CIPHERS]
    assert len(shared) >= 10
    for short, name in shared:
        words = short.replace("TLS_", "").replace("AES256", "AES_256").replace("AES128", "AES_128").replace("-", "_")
        assert [word for word in words.split("_") if word not in name] == []


def test_placeholders():
    assert [is_grease(number) for number in (0x0A0A, 0xFAFA, 0x0A1A, 0x0A0B, 0x1301)] == [True, True, *[False] * 3]

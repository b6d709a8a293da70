# SPDX-License-Identifier: Apache-2.0
"""DNS messages as an independent library writes them are read alike; cut, looping and false ones do no harm."""

from __future__ import annotations

import struct

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from netdiag.decode.dns import Answer, Question, rcode_name, read, split, type_name
from tests.fakes.mangle import mangled


def answer(*texts: str, question: str = "Api.Example.com", qtype: str = "A", rcode: str = "NOERROR") -> bytes:
    message = dns.message.make_response(dns.message.make_query(question, qtype, use_edns=True))
    for text in texts:
        name, ttl, *rest = text.split()
        message.answer.append(dns.rrset.from_text(name, int(ttl), *rest))
    message.set_rcode(dns.rcode.from_text(rcode))
    return message.to_wire()


QUERY = dns.message.make_query("api.example.com", "AAAA", use_edns=True, payload=1232).to_wire()
CHAIN = answer(
    "api.example.com. 300 IN CNAME edge.example.net.",
    "edge.example.net. 20 IN A 192.0.2.1 192.0.2.2",
    "edge.example.net. 60 IN TXT secret",
)
DENIED = answer(question="nowhere.example.com", rcode="NXDOMAIN")


def test_a_question_is_read():
    found = read(QUERY)
    assert found is not None
    assert (found.response, found.recursion, found.cut, found.error, found.ttl_s) == (False, True, False, None, None)
    assert found.questions == (Question(name="api.example.com", qtype="AAAA"),)
    assert (found.edns, found.udp_bytes) == (True, 1232)


def test_a_chain_of_aliases_ends_in_addresses_and_the_least_ttl_counts():
    found = read(CHAIN)
    assert found is not None
    assert found.response
    assert found.questions[0].name == "api.example.com"
    assert found.answers[0] == Answer(name="api.example.com", rtype="CNAME", ttl_s=300, data="edge.example.net")
    assert sorted(found.addresses) == ["192.0.2.1", "192.0.2.2"]  # the library shuffles them
    assert found.ttl_s == 20
    assert "secret" not in repr(found)


def test_a_denial_names_its_reason_and_how_long_it_holds():
    found = read(DENIED)
    assert found is not None
    assert (found.error, found.addresses, found.ttl_s) == ("NXDOMAIN", (), None)
    message = dns.message.from_wire(DENIED)
    message.authority.append(dns.rrset.from_text("example.com.", 900, "IN", "SOA", "a. b. 1 2 3 4 300"))
    found = read(message.to_wire())
    assert found is not None
    assert found.ttl_s == 300


def test_the_upper_bits_of_a_code_are_in_edns():
    message = dns.message.make_response(dns.message.make_query("x.test", "A", use_edns=True))
    message.set_rcode(dns.rcode.BADVERS)
    found = read(message.to_wire())
    assert found is not None
    assert found.error == "BADVERS"


def test_ipv6_addresses_are_written_short():
    found = read(answer("a.test. 5 IN AAAA 2001:db8:0:0::1", question="a.test", qtype="AAAA"))
    assert found is not None
    assert found.addresses == ("2001:db8::1",)


def test_a_name_with_control_characters_is_escaped():
    label = b"a\x1b[2J .\\z"
    data = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\0" + struct.pack(">2H", 1, 1)
    found = read(data)
    assert found is not None
    assert found.questions[0].name == r"a\027[2j\032\.\\z"


@pytest.mark.parametrize("target", [12, 14, 0, 11, 300])
def test_a_pointer_to_itself_forward_or_into_the_header_ends_the_reading(target):
    data = struct.pack(">6H", 7, 0x8180, 1, 1, 0, 0) + struct.pack(">H", 0xC000 | target) + struct.pack(">2H", 1, 1)
    found = read(data)
    assert found is not None
    assert found.cut
    assert found.questions == ()


def test_a_long_chain_of_pointers_is_not_followed_without_end():
    body = b"\1a\0" + b"".join(struct.pack(">H", 0xC000 | (12 + (2 * n + 1 if n else 0))) for n in range(2000))
    head = struct.pack(">6H", 7, 0x8180, 1, 5000, 0, 0)
    found = read(head + body)
    assert found is None or found.cut


def test_what_is_cut_keeps_what_was_there():
    for end in range(12, len(CHAIN)):
        found = read(CHAIN[:end])
        assert found is None or found.cut
        assert found is None or len(found.answers) <= 4
    found = read(CHAIN[:-25])
    assert found is not None
    assert len(found.addresses) == 2


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 11, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00", b"\xff" * 40],
)
def test_what_is_no_message_is_none(data):
    assert read(data) is None


def test_a_stream_is_split_at_its_lengths():
    stream = struct.pack(">H", len(QUERY)) + QUERY + struct.pack(">H", len(CHAIN)) + CHAIN
    assert split(stream) == ([QUERY, CHAIN], len(stream))
    assert split(stream[:-1]) == ([QUERY], len(QUERY) + 2)
    assert split(b"\0") == ([], 0)


def test_numbers_without_a_name_say_so():
    assert (type_name(65), type_name(65280)) == ("HTTPS", "TYPE65280")
    assert (rcode_name(2), rcode_name(12)) == ("SERVFAIL", "RCODE12")


@pytest.mark.fuzz
def test_any_mangled_message_is_read():
    cut = whole = 0
    for data in mangled((QUERY, CHAIN, DENIED, answer("a.test. 5 IN AAAA 2001:db8::1", qtype="AAAA"))):
        found = read(data)
        if found is None:
            continue
        cut, whole = cut + found.cut, whole + (not found.cut)
        names = [each.name for each in found.questions + found.answers] + [each.data or "" for each in found.answers]
        assert all(name.isascii() and name.isprintable() and len(name) <= 1020 for name in names)
        assert len(found.answers) <= 512
        split(data)
    assert cut > 0
    assert whole > 0

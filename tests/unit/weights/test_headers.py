# SPDX-License-Identifier: Apache-2.0
"""Headers of weights: what they say, and that no lie in them is believed."""

from __future__ import annotations

import json
import struct

import pytest

from netdiag.weights.headers import BadHeaderError, read_header


def safetensors(path, table, *, data=64, length=None):
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + bytes(data))
    return str(path)


def tensor(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(path, *, tensors=(("a", 0), ("b", 32)), pairs=b"", count=None, pair_count=0, version=3, data=64):
    body = b"".join(text(name) + struct.pack("<IQIQ", 1, 32, 0, offset) for name, offset in tensors)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if count is None else count, pair_count) + pairs + body
    path.write_bytes(head + bytes(-len(head) % 32) + bytes(data))
    return str(path)


def test_tensors_of_safetensors_in_the_order_of_the_file(tmp_path):
    table = {"__metadata__": {"format": "pt"}, "b": tensor(32, 64), "a": tensor(0, 32, [4, 4], "F16")}
    path = safetensors(tmp_path / "m.safetensors", table)
    header = read_header(path)
    assert header is not None
    assert header.format == "safetensors"
    assert [(t.name, t.size, t.shape) for t in header.tensors] == [("a", 32, (4, 4)), ("b", 32, (32,))]
    assert header.tensors[0].offset == 8 + len(json.dumps(table))


def test_a_blob_without_a_name_is_known_by_its_content(tmp_path):
    header = read_header(safetensors(tmp_path / "0a1b2c", {"a": tensor(0, 64)}))
    assert header is not None
    assert header.format == "safetensors"


def test_tensors_of_gguf(tmp_path):
    pairs = text("general.alignment") + struct.pack("<II", 4, 64) + text("names")
    pairs += struct.pack("<IIQ", 9, 8, 2) + text("x") + text("y")
    header = read_header(gguf(tmp_path / "m.gguf", pairs=pairs, pair_count=2))
    assert header is not None
    assert header.format == "gguf"
    assert [(t.name, t.offset % 64) for t in header.tensors] == [("a", 0), ("b", 32)]


def test_a_pickle_is_named_and_never_read(tmp_path):
    path = tmp_path / "m.pt"
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    header = read_header(str(path))
    assert header is not None
    assert (header.format, header.tensors) == ("torch", ())


def test_other_files_are_none_of_them(tmp_path):
    for content in (b"", b"x", b"{}", bytes(4096), b"\x7fELF" + bytes(60)):
        path = tmp_path / "other"
        path.write_bytes(content)
        assert read_header(str(path)) is None


def test_gguf_of_words_alone_has_no_tensors(tmp_path):
    header = read_header(gguf(tmp_path / "m.gguf", tensors=()))
    assert header is not None
    assert header.tensors == ()


@pytest.mark.parametrize(
    ("table", "more", "words"),
    [
        ({"a": tensor(0, 64)}, {"length": 1 << 40}, "over the limit"),
        ({"a": tensor(0, 64)}, {"length": 99_000_000}, "the file has"),
        (b"[1, 2", {}, "no JSON"),
        (b"[" * 50_000, {}, "no JSON"),
        (b'{"a": {}, "a": {}}', {}, "twice"),
        (b"[]", {}, "no table"),
        ({"a": 3}, {}, "no table"),
        ({"a": {"dtype": "F32"}}, {}, "lacks"),
        ({"a": tensor(0, 1 << 50)}, {}, "ends at byte"),
        ({"a": tensor(64, 0, [0])}, {}, "ends at byte"),
        ({"a": tensor(0, 64, [1 << 40, 1 << 40])}, {}, "another size"),
        ({"a": tensor(0, 40), "b": tensor(32, 64)}, {}, "on top of another"),
        ({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, {}, "lacks"),
        ({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}, {}, "lacks"),
    ],
)
def test_a_lie_in_safetensors_is_named(tmp_path, table, more, words):
    with pytest.raises(BadHeaderError, match=words):
        read_header(safetensors(tmp_path / "m.safetensors", table, **more))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"version": 9}, "version 9"),
        ({"count": 1 << 60}, "would have"),
        ({"pair_count": 1 << 60}, "would have"),
        ({"count": 1000}, "ends at byte|dimensions|text"),
        ({"tensors": (("a", 0), ("b", 1 << 40))}, "begins at byte"),
        ({"pairs": text("k") + struct.pack("<I", 77), "pair_count": 1}, "unknown kind"),
        ({"pairs": text("k") + struct.pack("<IIQ", 9, 0, 1 << 60), "pair_count": 1}, "ends at byte"),
        ({"pairs": text("k") + struct.pack("<IIQ", 9, 9, 3) * 9, "pair_count": 1}, "too many|unknown kind|ends"),
        ({"pairs": text("general.alignment") + struct.pack("<II", 4, 0), "pair_count": 1}, "alignment"),
        ({"pairs": struct.pack("<Q", 1 << 62), "pair_count": 1}, "text would have"),
    ],
)
def test_a_lie_in_gguf_is_named(tmp_path, more, words):
    with pytest.raises(BadHeaderError, match=words):
        read_header(gguf(tmp_path / "m.gguf", **more))


def test_every_cut_of_a_good_file_is_named_or_read(tmp_path):
    for make, name in ((lambda p: safetensors(p, {"a": tensor(0, 64)}), "m.safetensors"), (gguf, "m.gguf")):
        whole = tmp_path / name
        make(whole)
        content = whole.read_bytes()
        for length in range(4, len(content) - 1):
            cut = tmp_path / f"cut-{name}"
            cut.write_bytes(content[:length])
            try:
                header = read_header(str(cut))
            except BadHeaderError:
                continue
            assert header is None or header.tensors  # a cut in the data of the last tensor of GGUF cannot be seen

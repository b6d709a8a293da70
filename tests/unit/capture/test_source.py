# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of a capture come from: files, pipes, packed files, also broken and lying ones."""

from __future__ import annotations

import gzip
import io
import lzma
import os

import pytest
import zstandard

from netdiag.capture.source import kind_of, open_source
from netdiag.errors import InputUnreadable
from tests.fakes import packets as p

DATA = p.pcap([(number / 10, os.urandom(400)) for number in range(3000)])
PACKED = {
    "gzip": gzip.compress(DATA),
    "xz": lzma.compress(DATA),
    "zstd": zstandard.ZstdCompressor().compress(DATA),
    "several gzip": gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]),
}


def whole(source, step=10_000):
    parts = []
    while part := source.read(step):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("how", PACKED)
def test_packed_files_are_unpacked(how):
    source = open_source(PACKED[how])
    assert whole(source) == DATA
    assert source.broken is None


@pytest.mark.parametrize("how", PACKED)
def test_a_packed_file_that_breaks_off_gives_what_came_before(how):
    source = open_source(PACKED[how][: len(PACKED[how]) * 2 // 3])
    found = whole(source)
    assert found == DATA[: len(found)]
    assert source.broken is not None


def test_broken_data_inside_is_said():
    data = bytearray(PACKED["gzip"])
    data[5000:5100] = bytes(100)
    source = open_source(bytes(data))
    assert len(whole(source)) < len(DATA)
    assert "gzip" in str(source.broken)


def test_a_file_that_grows_without_measure_is_refused():
    bomb = gzip.compress(bytes(200 << 20), 9)
    with pytest.raises(InputUnreadable, match="300 times"):
        whole(open_source(bomb), 1 << 20)


def test_paths_pipes_and_bytes_are_alike(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(DATA)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        with os.fdopen(write_end, "wb") as out:
            out.write(DATA)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        assert whole(open_source(pipe)) == DATA
    os.waitpid(pid, 0)
    on_disk = open_source(path)
    contents = whole(on_disk)
    on_disk.close()
    assert (contents, on_disk.size, on_disk.taken) == (DATA, len(DATA), len(DATA))
    assert whole(open_source(io.BytesIO(DATA))) == whole(open_source(DATA)) == DATA


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputUnreadable, match=r"none\.pcap"):
        open_source(tmp_path / "none.pcap")


def test_kinds_are_known_by_their_first_bytes():
    assert kind_of(DATA) == "pcap"
    assert kind_of(p.pcapng([])) == "pcapng"
    assert [kind_of(PACKED[how]) for how in ("gzip", "xz", "zstd")] == ["gzip", "xz", "zstd"]
    assert kind_of(b"NETDIAG\0") is None
    assert kind_of(b"") is None


class Pipe(io.BytesIO):
    """Cannot be set back."""

    def seekable(self):
        return False


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("kind", [io.BytesIO, Pipe])
def test_a_file_and_a_short_pipe_can_be_read_again(how, kind):
    source = open_source(kind(PACKED[how]))
    assert whole(source) == DATA
    again = source.again()
    assert again is not None
    assert whole(again) == DATA


def test_a_file_that_somebody_read_from_begins_where_it_stood():
    file = io.BytesIO(b"before" + DATA)
    file.read(6)
    source = open_source(file)
    whole(source)
    again = source.again()
    assert again is not None
    assert whole(again) == DATA


def test_of_a_pipe_only_so_much_is_kept_and_nothing_where_it_will_not_be_wanted(monkeypatch):
    monkeypatch.setattr("netdiag.capture.source._MOST_KEPT", 1000)
    long = open_source(Pipe(DATA))
    whole(long)
    assert long.again() is None
    short = open_source(Pipe(DATA[:900]))
    short.forget()
    whole(short)
    assert short.again() is None

# SPDX-License-Identifier: Apache-2.0
"""Reads a BPF ring buffer in whole runs of records: mapped memory, no call per event.

The kernel side is `kernel/bpf/ringbuf.c`: one page with the consumer's position, one with the producer's, then the
data twice in a row. Every mapped page counts as this process's memory, so only a window of the data is mapped: it
begins at the page that holds the next record and moves on when its records were read. Rings may thus be large without
the reader being so, and since the data is there twice, a window never wraps. Each record starts with an 8-byte header
whose first word is its length, with bit 31 set while it is being written and bit 30 when it was discarded.
"""

from __future__ import annotations

import mmap
import platform
import struct
import threading
from collections.abc import Callable, Iterator

__all__ = ["HEADER_BYTES", "Ring"]

HEADER_BYTES = 8
_PAGE = mmap.PAGESIZE
_WINDOW_BYTES = 64 * 1024
_BUSY = 1 << 31
_DISCARD = 1 << 30
_TSO = frozenset({"x86_64", "amd64", "i686"})
"""Processors on which loads are not reordered with loads, nor stores with earlier loads: no barrier is needed."""


def _barrier() -> Callable[[], None]:
    if platform.machine().lower() in _TSO:
        return lambda: None
    lock = threading.Lock()
    lock.acquire()

    def cross() -> None:
        # release, then acquire: everything before the first is seen before anything after the second
        lock.release()
        lock.acquire()

    return cross


class Ring:
    """The consumer of one ring with records of one size.

    `take` gives runs, `release` hands their room back to the kernel. One consumer per ring.
    """

    def __init__(self, fd: int, size: int, record_bytes: int) -> None:
        """Map the ring `fd` of `size` bytes (a power of two) that holds structs of `record_bytes`."""
        self.fd = fd
        self.size = size
        self.stride = HEADER_BYTES + (record_bytes + 7) // 8 * 8
        self._good = struct.pack("=I", record_bytes)
        self._most = min(size, _WINDOW_BYTES) // self.stride
        self.turns = size // self.stride // self._most + 1
        """So many takes read all that a full ring holds."""
        # a cast view reads a position by one aligned 8-byte load, which struct's "<Q" does not promise
        self._consumer = memoryview(mmap.mmap(fd, _PAGE)).cast("Q")
        self._producer = memoryview(mmap.mmap(fd, _PAGE, prot=mmap.PROT_READ, offset=_PAGE)).cast("Q")
        self._barrier = _barrier()
        self._move(self._consumer[0] & (size - 1))

    def _move(self, start: int) -> None:
        """Map the window whose first page holds the byte `start` of the data."""
        self._base = start // _PAGE * _PAGE
        length = min(self.size, _WINDOW_BYTES) + _PAGE
        window = mmap.mmap(self.fd, length, prot=mmap.PROT_READ, offset=2 * _PAGE + self._base)
        self._data = memoryview(window)
        self._words = self._data.cast("I")

    def take(self) -> tuple[list[memoryview], int]:
        """Return runs of finished records, headers included, and the number of bytes to `release` afterwards.

        At most a window's worth: take again until nothing comes. Stops before a record that is still being written
        and leaves out discarded ones.
        """
        consumed = self._consumer[0]
        available = self._producer[0] - consumed
        self._barrier()
        count = min(available // self.stride, self._most)
        if not count:
            return [], 0
        start = consumed & (self.size - 1)
        if not 0 <= start - self._base <= len(self._data) - count * self.stride:
            self._move(start)
        start -= self._base
        # records are 8-byte aligned, so headers are whole words
        headers = self._words[start // 4 :: self.stride // 4][:count].tobytes()
        self._barrier()
        if headers == self._good * count:
            return [self._data[start : start + count * self.stride]], count * self.stride
        pieces = list(self._pieces(headers))
        done = pieces[-1][1] if pieces else 0
        kept = [self._data[start + a * self.stride : start + b * self.stride] for a, b, whole in pieces if whole]
        return [run for run in kept if len(run)], done * self.stride

    def _pieces(self, headers: bytes) -> Iterator[tuple[int, int, bool]]:
        """Yield (first, end, kept) over the records up to the first busy one."""
        begin = index = 0
        for (word,) in struct.iter_unpack("=I", headers):
            if word & _BUSY:
                break
            if word & _DISCARD:
                yield begin, index, True
                yield index, index + 1, False
                begin = index + 1
            index += 1
        if index > begin:
            yield begin, index, True

    def release(self, count: int) -> None:
        """Give `count` bytes back to the kernel; what `take` returned must not be read after this."""
        if count:
            self._barrier()
            self._consumer[0] += count

    @property
    def unread(self) -> int:
        """Bytes between consumer and producer."""
        return self._producer[0] - self._consumer[0]

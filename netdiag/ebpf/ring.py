# SPDX-License-Identifier: Apache-2.0
"""Reads a BPF ring buffer in whole runs of records: mapped memory, no call per event.

The kernel side is `kernel/bpf/ringbuf.c`: one page with the consumer's position, one with the producer's, then the
data. The kernel can map the data twice in a row, so that a run never wraps; here it is mapped once, since every
mapped page counts as this process's memory, and a run that wraps comes in two pieces. Each record starts with an
8-byte header whose first word is its length, with bit 31 set while it is being written and bit 30 when it was
discarded.
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
        self._consumer = memoryview(mmap.mmap(fd, _PAGE)).cast("Q")
        shared = memoryview(mmap.mmap(fd, _PAGE + size, prot=mmap.PROT_READ, offset=_PAGE))
        # a cast view reads a position by one aligned 8-byte load, which struct's "<Q" does not promise
        self._producer = shared[:_PAGE].cast("Q")
        self._data = shared[_PAGE:]
        self._words = self._data.cast("I")
        self._barrier = _barrier()

    def take(self) -> tuple[list[memoryview], int]:
        """Return the runs of finished records, headers included, and the number of bytes to `release` afterwards.

        Joined, the runs are whole records; one record may lie across two runs, where the ring wraps around. Stops
        before a record that is still being written and leaves out discarded ones.
        """
        consumed = self._consumer[0]
        available = self._producer[0] - consumed
        self._barrier()
        count = available // self.stride
        if not count:
            return [], 0
        headers = self._headers(consumed, count)
        self._barrier()
        if headers == self._good * count:
            return self._runs(consumed, count * self.stride), count * self.stride
        pieces = list(self._pieces(headers))
        done = pieces[-1][1] if pieces else 0
        kept = [self._runs(consumed + a * self.stride, (b - a) * self.stride) for a, b, whole in pieces if whole]
        return [run for runs in kept for run in runs], done * self.stride

    def _runs(self, position: int, length: int) -> list[memoryview]:
        start = position & (self.size - 1)
        first = self._data[start : start + length]
        rest = length - len(first)
        return [run for run in (first, self._data[:rest]) if len(run)]

    def _headers(self, position: int, count: int) -> bytes:
        """Return the first word of each record; records are 8-byte aligned, so no header lies across the wrap."""
        start, step = position & (self.size - 1), self.stride // 4
        whole = min(count, (self.size - start + self.stride - 1) // self.stride)
        headers = self._words[start // 4 :: step][:whole].tobytes()
        if whole < count:
            second = (start + whole * self.stride) - self.size
            headers += self._words[second // 4 :: step][: count - whole].tobytes()
        return headers

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

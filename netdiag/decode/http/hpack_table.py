# SPDX-License-Identifier: Apache-2.0
"""Header fields of HTTP/2 from HPACK (RFC 7541), also where the conversation was joined or a block was not seen.

The dynamic table is counted from its newest entry. After a block that was not seen, what is added later has the right
number, and every older number is one that is not known: such a field is told as unknown, never as another one.
"""

from __future__ import annotations

import logging

from hpack import Decoder, HPACKError
from hpack.table import HeaderTable

__all__ = ["MAX_BLOCK", "Fields", "HeaderDecoder"]

# The library writes the fields that it decodes into its debug log; no log may hold them.
logging.getLogger("hpack").setLevel(logging.CRITICAL)

MAX_BLOCK = 32 * 1024
"""Bytes of a header block that are decoded; a longer one counts as not seen."""
_MAX_TABLE = 64 * 1024

Fields = list[tuple[bytes, bytes]]
"""Names and values in order."""


class _Table(HeaderTable):
    """A table that may lack its older entries."""

    def __init__(self) -> None:
        super().__init__()
        self.missed = False

    def get_by_index(self, index: int) -> tuple[bytes, bytes]:
        known = index - HeaderTable.STATIC_TABLE_LENGTH <= len(self.dynamic_entries)
        if index >= 1 and known:
            return super().get_by_index(index)
        self.missed = True
        return b"", b""


class HeaderDecoder:
    """The header blocks of one direction of a connection."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=4 * MAX_BLOCK)
        self._decoder.max_allowed_table_size = _MAX_TABLE
        self._table = self._decoder.header_table = _Table()

    def forget(self) -> None:
        """A block was not seen: what it added to the table is not known, nor the numbers of older entries."""
        size = self._table.maxsize
        self._table = self._decoder.header_table = _Table()
        self._table.maxsize = size

    def decode(self, block: bytes) -> tuple[Fields, bool]:
        """Return the fields that are known, and whether those are all."""
        self._table.missed = False
        if len(block) > MAX_BLOCK:
            self.forget()
            return [], False
        try:
            found = list(self._decoder.decode(block, raw=True))
        except (HPACKError, ValueError, IndexError, OverflowError):
            self.forget()
            return [], False
        fields = [(bytes(name), bytes(value)) for name, value in found if name]
        # an entry that was added under a name that is not known has none
        return fields, not self._table.missed and len(fields) == len(found)

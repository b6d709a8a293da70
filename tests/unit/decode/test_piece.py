# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.decode.piece import Piece


def test_bytes_are_never_printed():
    piece = Piece(at_ns=1, direction="send", offset=0, length=20, data=b"SECRET", tail=b"SECRET")
    assert "SECRET" not in repr(piece) + str(piece)

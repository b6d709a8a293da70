# SPDX-License-Identifier: Apache-2.0
"""What was traced in the forms of other tools: Parquet, CSV, JSON, HAR, OTLP, pcapng.

All of them say what the document says, without a document of everything in memory: lists go by in pieces.
"""

from __future__ import annotations

__all__ = ["FORMATS", "LISTS"]

FORMATS: tuple[str, ...] = ("parquet", "csv", "json", "har", "pcapng", "otlp")
LISTS: tuple[str, ...] = ("requests", "connections", "handshakes", "resolutions", "processes", "findings")
"""The lists of the document that Parquet and CSV hold, a folder or file each."""

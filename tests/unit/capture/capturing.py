# SPDX-License-Identifier: Apache-2.0
"""What the tests of captures share: from the bytes of a file to rows of tables."""

from __future__ import annotations

from netdiag import capture, tables
from netdiag.analysis import Options, examine


def read(data, **more):
    return capture.read(data, **more)


def table(data, name="connections", **more):
    return getattr(tables.build(read(data, **more)), name)


def connection(data, **more):
    """Return the only connection of a file."""
    [row] = table(data, **more).itertuples()
    return row


def records(data, **more):
    """Return the TLS records of a file, by time."""
    found = read(data, **more).records("tls_record")
    names = found.dtype.names
    rows = [dict(zip(names, row.item(), strict=True)) for row in found]
    return sorted(rows, key=lambda row: row["time"])


def codes(data, **more):
    """Return the findings of a file, by code."""
    found = examine(tables.build(read(data, **more)), Options()).findings
    return {finding.code: finding for finding in found}

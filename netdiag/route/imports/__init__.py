# SPDX-License-Identifier: Apache-2.0
"""Readers of other tools' files; each gives a `Measurement` whose method is `imported`."""

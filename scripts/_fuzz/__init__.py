# SPDX-License-Identifier: Apache-2.0
"""Mutates bytes for every parser of foreign bytes, guided by coverage with atheris: `scripts/fuzz guided`."""

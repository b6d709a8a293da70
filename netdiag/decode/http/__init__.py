# SPDX-License-Identifier: Apache-2.0
"""HTTP from pieces of plaintext: bytes in, events out. No clock, no I/O; bodies are looked at and dropped."""

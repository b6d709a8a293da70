# SPDX-License-Identifier: Apache-2.0
"""Packets of a capture file → the same streams and facts as a recording of the kernel programs, in memory."""

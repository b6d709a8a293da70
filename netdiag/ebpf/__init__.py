# SPDX-License-Identifier: Apache-2.0
"""Kernel programs from Python: libbpf by ctypes, rings read in whole runs. Standard library only."""

# SPDX-License-Identifier: Apache-2.0
"""Sends probes and matches answers: error queues without privileges, raw sockets with them. Standard library only."""

# SPDX-License-Identifier: Apache-2.0
"""Clients of the field's usual libraries, each with one habit.

They run in an interpreter of their own, which need not know netdiag: nothing here may import it.
"""

# SPDX-License-Identifier: Apache-2.0
"""The one privileged process: attaches, drains rings, writes the recording. Standard library only."""

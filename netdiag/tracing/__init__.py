# SPDX-License-Identifier: Apache-2.0
"""The front's side of a trace: start CMD and the recorder, hand over, drop privileges, wait, stop."""

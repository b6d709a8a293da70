# SPDX-License-Identifier: Apache-2.0
"""What tracing costs, measured beside other tracers on this machine: `scripts/bench`."""

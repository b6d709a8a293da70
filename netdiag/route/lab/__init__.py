# SPDX-License-Identifier: Apache-2.0
"""Networks with known ways, made of namespaces on this machine: to test, to measure and to prove accuracy."""

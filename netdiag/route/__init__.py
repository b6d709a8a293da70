# SPDX-License-Identifier: Apache-2.0
"""The way to an API host: probes sent and answers received (`model`, `engine`), what follows from them, and a lab."""

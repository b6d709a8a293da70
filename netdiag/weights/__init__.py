# SPDX-License-Identifier: Apache-2.0
"""How model weights get from disk to memory to the GPU: what was measured, what it means, what would change it."""

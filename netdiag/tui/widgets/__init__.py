# SPDX-License-Identifier: Apache-2.0
"""One widget a file; each draws what it is given and tells by messages what was chosen."""

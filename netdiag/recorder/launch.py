# SPDX-License-Identifier: Apache-2.0
"""The file that is run with privileges: `python -I -S launch.py --socket PATH --uid UID`.

Isolated, so nothing of the user's is read: no environment, working directory, site folder or home. netdiag's own
folder comes last on the path, for nothing in it may take the place of a standard module.
"""

from __future__ import annotations

import sys

sys.dont_write_bytecode = True
sys.path.append(__file__.rpartition("/netdiag/")[0])

from netdiag.recorder.__main__ import main  # noqa: E402 - the path must stand first

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Run the command line as `python -m netdiag`."""

from netdiag.cli.main import main

if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Run one habit: `python …/clients PLAN.json`. The plan is a file so that no command line tells the habit."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path


def main() -> None:
    """Load the module of the plan's library and run the habit."""
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    warnings.simplefilter("ignore")  # every library warns that the throw-away certificate is not verified
    table = json.loads(Path(sys.argv[1]).read_text())
    library, habit = table.pop("library"), table.pop("habit")
    plan = importlib.import_module("clients.plan").Plan(**table)
    importlib.import_module(f"clients.with_{library}").HABITS[habit](plan)


if __name__ == "__main__":
    main()

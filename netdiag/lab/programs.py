# SPDX-License-Identifier: Apache-2.0
"""Which client programs are at hand, and the command line that runs one of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from netdiag.errors import Unsupported

__all__ = ["STANDARD", "Programs", "lab_python", "prepare"]

HERE = Path(__file__).parent
STANDARD = ("stdlib", "urllib", "names")
"""Libraries that every Python has."""
PACKAGES = ("requests", "urllib3", "httpx", "aiohttp", "openai", "tenacity", "pycurl")
SHELL = 'n=0; while [ "$n" -lt "$CALLS" ]; do n=$((n + 1)); curl -sk -o /dev/null -d "$BODY" "$URL"; sleep "$GAP"; done'


def lab_folder() -> Path:
    """Return where the client libraries' environment lies: beside the checkout, else in the user's cache."""
    checkout = HERE.parent.parent
    if (checkout / "pyproject.toml").exists():
        return checkout / ".cache" / "lab-venv"
    return Path.home() / ".cache" / "netdiag" / "lab-venv"


def lab_python() -> str | None:
    """Return the Python that has the client libraries: NETDIAG_LAB_PYTHON, else the lab's environment, else None."""
    named = os.environ.get("NETDIAG_LAB_PYTHON")
    if named:
        return named
    python = lab_folder() / "bin" / "python"
    return str(python) if python.exists() else None


def prepare() -> str:
    """Make the environment of the client libraries if it isn't there, and return its interpreter. Asks PyPI, once."""
    found = lab_python()
    if found:
        return found
    folder = lab_folder()
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, "-r", str(HERE / "requirements.txt")], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unsupported(f"pip installed no client libraries: {done.stderr.strip()[-300:]}")
    return str(python)


@cache
def importable(python: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return those packages that an interpreter can find."""
    code = "import importlib.util, sys; print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name)])"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=False)
    return tuple(done.stdout.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The client programs of one machine."""

    python: str | None = field(default_factory=lab_python)
    """Interpreter with the client libraries; None where there is none."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """More programs, name to path; each takes the path of its plan."""

    def at_hand(self) -> list[str]:
        """Return the names that a scenario's `library` may take here."""
        packages = importable(self.python, PACKAGES) if self.python else ()
        commands = [name for name in ("node", "curl") if shutil.which(name)]
        return [*STANDARD, *packages, *commands, *self.extra]

    def argv(self, client: Mapping[str, Any], urls: Sequence[str], folder: Path) -> list[str]:
        """Return the command for a scenario's `[client]` table; its plan is written into `folder`."""
        library = client["library"]
        plan = {
            name: value for name, value in client.items() if name not in ("hosts", "paths", "closed_port", "cpu_share")
        }
        plan["urls"] = list(urls)
        if library not in self.at_hand():
            raise Unsupported(f"the lab's client needs {library}", hint="scripts/setup --lab installs the libraries")
        if library == "curl":
            return curl(plan, folder)
        file = folder / "plan.json"
        file.write_text(json.dumps(plan))
        if library == "node":
            return ["node", str(HERE / "clients" / "client.mjs"), str(file)]
        if library in self.extra:
            return [self.extra[library], str(file)]
        python = sys.executable if library in STANDARD else str(self.python)
        return [python, str(HERE / "clients"), str(file)]


def curl(plan: Mapping[str, Any], folder: Path) -> list[str]:
    """Return a shell loop with a curl process per call, or one curl for all calls."""
    calls, gap, url = int(plan.get("calls", 6)), float(plan.get("gap_s", 0.05)), plan["urls"][0]
    body = json.dumps({"model": "lab", "stream": bool(plan.get("stream"))})
    if plan.get("habit") == "session":
        config = folder / "curl.conf"
        content = json.loads(body) | {"messages": [{"role": "user", "content": "x" * int(plan.get("body_bytes", 20))}]}
        payload = folder / "body.json"
        payload.write_text(json.dumps(content))
        one = f'url = "{url}"\noutput = "/dev/null"\ninsecure\nsilent\ndata-binary = "@{payload}"\n'
        config.write_text("next\n".join([one] * calls))
        return ["curl", "--config", str(config)]
    settings = {"CALLS": calls, "GAP": gap, "URL": url, "BODY": body}
    return ["env", *(f"{name}={value}" for name, value in settings.items()), "sh", "-c", SHELL]

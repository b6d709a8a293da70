# SPDX-License-Identifier: Apache-2.0
"""A process that looks at something while a load runs: it ends when its standard input does, and leaves JSON lines."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

__all__ = ["Aside"]


class Aside:
    """Such a process; its lines go to a file without a name, so that nobody has to read them meanwhile."""

    def __init__(
        self,
        module: str,
        *words: str,
        stop_s: float,
        keep: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a module of netdiag with some words; `keep` are descriptors that it gets, too."""
        self._stop_s = stop_s
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=subprocess.DEVNULL,
            env=None if environment is None else dict(environment),
            pass_fds=keep,
            start_new_session=True,
        )

    def tell(self, line: str) -> bool:
        """Send it a line; False where it is gone."""
        try:
            if self._process.stdin is None:
                return False
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def stop(self) -> list[dict[str, Any]]:
        """End it and return its rows; one that does not end in time is killed, and leaves what it had said."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._out:
            self._out.seek(0)
            return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for line in self._out:
            with contextlib.suppress(ValueError):  # the last line of one that was killed
                row = json.loads(line)
                if isinstance(row, dict):
                    yield row

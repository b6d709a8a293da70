# SPDX-License-Identifier: Apache-2.0
"""Command lines without their values: what was run stays readable, keys, hosts and prompts do not.

A word is kept only if it is one of: the program, the name of an option, a script or module that an interpreter was
told to run, a plain subcommand of a few letters, a short number. Everything else becomes `{…}`. Pure; standard
library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["MASK", "mask_argv"]

MASK = "{…}"
"""What stands for a value."""

MAX_WORDS = 64
"""Words of a command line that are looked at; one mask stands for the rest."""

_INTERPRETERS = re.compile(r"(?:python|pypy|node|nodejs|ruby|perl|php|bash|sh|dash|zsh|deno|bun)[\d.]*|java|Rscript")
_SCRIPT = re.compile(r"[\w./+@~-]{1,120}\.(?:py|pyw|pyz|js|mjs|cjs|ts|mts|rb|pl|php|sh|jar|R)", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_][A-Za-z_]{0,30}(?:\.[A-Za-z_]{1,30}){0,5}", re.ASCII)
_OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z][A-Za-z]*(?:-[A-Za-z]+)*", re.ASCII)
_SUBCOMMAND = re.compile(r"[a-z]{1,12}(?:-[a-z]{1,12})?", re.ASCII)
_PATH = re.compile(r"[\w./+@:~-]{1,255}", re.ASCII)
_MAX_OPTION = 32
_LONG_RUN = re.compile(r"[A-Za-z0-9_-]{33,}", re.ASCII)
_DIGITS = re.compile(r"\d")
_NUMBER = re.compile(r"\d{1,5}", re.ASCII)


def mask_argv(argv: Iterable[str], *, keep: bool = False) -> list[str]:
    """Return `argv` with every value masked; as it is where `keep`.

    `python app.py --key=abc prompt` → `["python", "app.py", "--key={…}", "{…}"]`
    """
    words = list(argv)
    if keep or not words:
        return words
    masked = [_program(words[0])]
    rest = words[1:MAX_WORDS]
    if _INTERPRETERS.fullmatch(words[0].rpartition("/")[2]):
        taken = _interpreter_part(rest)
        masked += taken
        rest = rest[len(taken) :]
    elif rest and _SUBCOMMAND.fullmatch(rest[0]):
        masked.append(rest.pop(0))
    masked += [_argument(word) for word in rest]
    return [*masked, MASK] if len(words) > MAX_WORDS else masked


def _program(word: str) -> str:
    """Return the program's name or path; a title that a program set for itself can hold anything."""
    return word if _PATH.fullmatch(word) and not _suspicious(word) else MASK


def _interpreter_part(words: Sequence[str]) -> list[str]:
    """Return the masked words up to and with the script or module that an interpreter was told to run."""
    masked: list[str] = []
    for place, word in enumerate(words):
        if word in ("-m", "-jar", "-c", "-e", "-p", "--eval"):
            operand = words[place + 1 : place + 2]
            return [*masked, word, *(_operand(word, value) for value in operand)]
        if not word.startswith("-"):
            return [*masked, word if _is_script(word) else MASK]
        masked.append(_argument(word))
    return masked


def _operand(option: str, value: str) -> str:
    """Return what follows `-m` or `-jar`; program text after `-c` and `-e` is a value."""
    if option == "-m":
        return value if _MODULE.fullmatch(value) else MASK
    return value if option == "-jar" and _is_script(value) else MASK


def _argument(word: str) -> str:
    """Return an option's name with its value masked, or the mask."""
    name, equals, _ = word.partition("=")
    if _OPTION.fullmatch(name) and len(name) <= _MAX_OPTION:
        return f"{name}={MASK}" if equals else name
    if word.startswith("-") and re.match(r"-[A-Za-z]", word, re.ASCII) and not word.startswith("--"):
        return f"{word[:2]}{MASK}"  # a value glued to its option: -psecret, or several options in one
    if word in ("-", "--"):
        return word
    return word if _NUMBER.fullmatch(word) else MASK


def _is_script(word: str) -> bool:
    return bool(_SCRIPT.fullmatch(word)) and not _suspicious(word)


def _suspicious(word: str) -> bool:
    """Say whether a part of a path looks like a token: long, or with as many digits as an identifier has."""
    return any(_LONG_RUN.search(part) or len(_DIGITS.findall(part)) > 8 for part in word.split("/"))

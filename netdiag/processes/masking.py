# SPDX-License-Identifier: Apache-2.0
"""Command lines without their values: what was run stays readable, keys, hosts and prompts do not.

Kept are the program, the names of options, and the script or module that an interpreter was told to run. Everything
else becomes `{…}`. Pure; standard library only.
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
_SCRIPT = re.compile(r"[\w./+@~-]{1,200}\.(?:py|pyw|pyz|js|mjs|cjs|ts|mts|rb|pl|php|sh|jar|R)", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_]{1,30}(?:\.[A-Za-z_]{1,30}){0,5}", re.ASCII)
_SHORT = re.compile(r"-[A-Za-z0-9]", re.ASCII)
_LONG = re.compile(r"--?[A-Za-z]{1,16}(?:[-_][A-Za-z]{1,16}){0,4}", re.ASCII)
_GLUED = re.compile(r"-[A-Za-z]", re.ASCII)
_PROGRAM = re.compile(r"[\w./+@~-]{1,255}", re.ASCII)
_PROGRAM_TEXT = ("-c", "-e", "-p", "--eval", "--print")
_TOKEN_DIGITS = 9
_TOKEN_RUN = re.compile(r"[A-Za-z0-9_-]{33,}", re.ASCII)
_MIXED_RUN = re.compile(r"(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[a-z])(?=[A-Za-z0-9]*[A-Z])[A-Za-z0-9]{12,}", re.ASCII)


def mask_argv(argv: Iterable[str], *, keep: bool = False) -> list[str]:
    """Return `argv` with every value masked; as it is where `keep`.

    `python app.py --key=abc prompt` → `["python", "app.py", "--key={…}", "{…}"]`
    """
    words = list(argv)
    if keep or not words:
        return words
    program, *rest = words[:MAX_WORDS]
    masked = [program if _PROGRAM.fullmatch(program) and not _looks_like_token(program) else MASK]
    if _INTERPRETERS.fullmatch(program.rpartition("/")[2]):
        masked += _up_to_script(rest)
    masked += [_argument(word) for word in rest[len(masked) - 1 :]]
    return [*masked, MASK] if len(words) > MAX_WORDS else masked


def _up_to_script(words: Sequence[str]) -> list[str]:
    """Return the masked words up to and with the script or module that an interpreter was told to run."""
    masked: list[str] = []
    after_option = False
    for place, word in enumerate(words):
        if word in ("-m", "-jar") or word in _PROGRAM_TEXT:
            return [*masked, word, *(_operand(word, operand) for operand in words[place + 1 : place + 2])]
        if _is_script(word):
            return [*masked, word]
        masked.append(_argument(word))
        if not word.startswith("-") and not after_option:
            break  # a script of another name: what follows is its own
        after_option = word.startswith("-") and "=" not in word
    return masked


def _operand(option: str, value: str) -> str:
    """Return what follows `-m` or `-jar`; a program's text, after `-c` and its like, is a value."""
    known = option == "-m" and _MODULE.fullmatch(value)
    return value if known or (option == "-jar" and _is_script(value)) else MASK


def _argument(word: str) -> str:
    """Return an option's name with its value masked, or the mask."""
    name, equals, _ = word.partition("=")
    if _SHORT.fullmatch(name) or (_LONG.fullmatch(name) and (equals or name.startswith("--"))):
        return f"{name}={MASK}" if equals else name
    if _GLUED.match(word):
        return f"{word[:2]}{MASK}"  # -psecret, or several options in one
    return word if word in ("-", "--") else MASK


def _is_script(word: str) -> bool:
    return bool(_SCRIPT.fullmatch(word)) and not word.startswith("-") and not _looks_like_token(word)


def _looks_like_token(path: str) -> bool:
    """Say whether a part of a path is as long, as mixed or as full of digits as a key or an id."""
    return any(
        _TOKEN_RUN.search(part) or _MIXED_RUN.search(part) or sum(map(str.isdigit, part)) >= _TOKEN_DIGITS
        for part in path.split("/")
    )

# SPDX-License-Identifier: Apache-2.0
"""Paths, hosts and header values without what could be a secret: what names a resource stays, what names a person not.

Pure. In doubt a word is masked: a path that says too little costs less than one that says too much.
"""

from __future__ import annotations

import re

__all__ = ["MASK", "clean_host", "clean_method", "clean_model", "clean_path", "clean_value", "model_in_path"]

MASK = "{…}"
"""What stands for an identifier."""

_MAX_SEGMENTS, _MAX_SEGMENT, _MAX_PATH = 24, 48, 256
_MAX_VALUE = 128
_METHOD = re.compile(rb"[A-Z][A-Z-]{0,15}")
_MODEL = re.compile(rb"[A-Za-z0-9._:/-]{1,64}")
_HOST = re.compile(r"(?:[a-z0-9_][a-z0-9_-]{0,62}\.){0,39}[a-z0-9_][a-z0-9_-]{0,62}\.?|\[[0-9a-f:.]{2,45}\]")
_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,15}://[^/?#]*")
_WORDS = re.compile(r"[A-Za-z0-9._~:!*,-]+")
_DATE = re.compile(r"(?<![0-9])20[0-9]{2}-?[01][0-9]-?[0-3][0-9](?![0-9])")
_PREFIXED = re.compile(
    r"(?i)(?:sk|pk|rk|ak|ghp|gho|github_pat|glpat|xox[a-z]|key|apikey|token|secret|bearer|bot|AIza|AKIA)[-_:.]?"
)
_RUN = re.compile(r"[A-Za-z0-9]+")
_TURN = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]")
_HUMP = re.compile(r"[a-z][A-Z]")
_HEX = re.compile(r"(?i)[0-9a-f]{8,}")
_LONG_RUN, _MIXED_RUN, _MOST_DIGITS, _LONGEST_WORD = 25, 8, 4, 20
_MODEL_SEGMENT = re.compile(rb"/(?:models|deployments|model)/([A-Za-z0-9._-]{1,64})(?=[:/?]|\Z)")


def clean_method(raw: bytes) -> str | None:
    """Return a request's method; None for what is none."""
    return raw.decode("ascii") if _METHOD.fullmatch(raw) else None


def clean_model(raw: bytes) -> str | None:
    """Return a model's name, at most 64 of `[A-Za-z0-9._:/-]`; None for what is none, or looks like a key."""
    if not _MODEL.fullmatch(raw):
        return None
    name = raw.decode("ascii")
    return None if any(_secret(part) for part in re.split(r"[/:]", name)) else name


def _secret(word: str) -> bool:
    """Tell whether a part of a model's name is more of a key than a name."""
    rest = _DATE.sub("", word)
    return bool(re.match(r"(?i)(?:sk|pk|ghp|gho|glpat|xox[a-z])[-_]", rest)) or any(
        len(run) >= _LONG_RUN for run in _RUN.findall(rest)
    )


def clean_host(raw: bytes) -> str | None:
    """Return the name or address of a Host header or an authority, lower case, without user and port."""
    text = raw[:300].decode("latin-1").rpartition("@")[2].strip().lower()
    if not text.startswith("["):
        text = text.partition(":")[0]
    elif "]" in text:
        text = text[: text.index("]") + 1]
    return text if len(text) <= 253 and _HOST.fullmatch(text) else None


def clean_path(raw: bytes) -> str | None:
    """Return a request's target as a path: no query, no fragment, identifiers as `{…}`; None for an empty one."""
    if raw == b"*":
        return "*"
    known = _ABSOLUTE.match(raw)
    rest = raw[known.end() :] if known else raw
    path = re.split(rb"[?#;]", rest[:8192], maxsplit=1)[0]
    if not path.startswith(b"/"):
        return "/" if known else None
    segments = path[1:].decode("latin-1").split("/")
    shown = [segment if not segment or is_word(segment) else MASK for segment in segments[:_MAX_SEGMENTS]]
    if len(segments) > _MAX_SEGMENTS:
        shown.append(MASK)
    text = "/" + "/".join(shown)
    return text if len(text) <= _MAX_PATH else text[:_MAX_PATH].rpartition("/")[0] + "/" + MASK


def model_in_path(raw: bytes) -> str | None:
    """Return the model that a path names, as in `/v1beta/models/NAME:generateContent`; None without one."""
    found = _MODEL_SEGMENT.search(raw.partition(b"?")[0][:1024])
    return clean_model(found[1]) if found else None


def is_word(segment: str) -> bool:
    """Tell whether a segment of a path names a kind of thing, and not one of them."""
    if len(segment) > _MAX_SEGMENT or not _WORDS.fullmatch(segment):
        return False
    rest = _DATE.sub("", segment)
    if rest.isdigit() or (_PREFIXED.match(rest) and not rest.isalpha()):
        return False
    if sum(map(str.isdigit, rest)) > _MOST_DIGITS:
        return False
    return not any(_is_id(run) for run in _RUN.findall(rest))


def _is_id(run: str) -> bool:
    """Tell whether letters and digits without a break between them are as long or as mixed as an identifier."""
    if len(run) >= _LONG_RUN:
        # methodsInCamelCase are words, if each of them is short enough
        humps = re.findall(r"[A-Z]?[a-z]+", run)
        return "".join(humps) != run or any(len(hump) > _LONGEST_WORD for hump in humps) or len(humps) > len(run) / 3
    digits = sum(map(str.isdigit, run))
    if digits and len(run) >= _MIXED_RUN and len(_TURN.findall(run)) >= 2:
        return True
    if digits and _HEX.fullmatch(run):
        return True
    if run.isalpha() and len(run) >= _MIXED_RUN and not run.islower() and not run.isupper():
        return len(_HUMP.findall(run)) > len(run) / 4 or bool(
            re.search(r"[a-z][A-Z]{2,}[a-z]|[a-z][A-Z][a-z][A-Z]", run)
        )
    return run.isalpha() and run.islower() and len(run) > _LONGEST_WORD


_SHAPES = {
    "token": re.compile(r"[A-Za-z0-9_./+;=:*,\" -]+"),
    "number": re.compile(r"[0-9]+(?:\.[0-9]+)?(?: ?(?:ms|s|us|µs|ns))?"),
    "date": re.compile(r"[0-9]+(?:\.[0-9]+)?|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"),
    "id": re.compile(r"[A-Za-z0-9_.:=+/-]+"),
}
_METRIC = re.compile(r"\s*([A-Za-z0-9_.!#$%&'*+^`|~-]{1,40})\s*((?:;[^,]*)?)")
_DURATION = re.compile(r";\s*dur\s*=\s*\"?([0-9]+(?:\.[0-9]+)?)\"?")


def clean_value(shape: str, raw: bytes) -> str | None:
    """Return a kept header's value where it has the shape that its header may have; None drops it.

    `shape` is one of those that `probes/headers.toml` describes.
    """
    text = raw[: 8 * _MAX_VALUE].decode("latin-1").strip()
    if shape == "timing":
        return _timing(text)
    if len(text) > _MAX_VALUE or not _SHAPES[shape].fullmatch(text):
        return None
    if shape == "token" and "/" in text:
        text = _media_type(text)
    if shape == "token" and any(len(run) >= _LONG_RUN for run in _RUN.findall(text)):
        return None
    return text or None


def _media_type(text: str) -> str:
    """Return a content type with its character set alone: a boundary is anybody's text."""
    kind, *parameters = text.split(";")
    kept = [each.strip() for each in parameters if each.strip().lower().startswith("charset=")]
    return "; ".join([kind.strip(), *kept])


def _timing(text: str) -> str | None:
    """Return the metrics of Server-Timing that have a duration, at most 16."""
    found: list[str] = []
    for each in text.split(",")[:64]:
        metric = _METRIC.fullmatch(each)
        duration = _DURATION.search(metric[2]) if metric else None
        if metric and duration and len(found) < 16 and not _is_id(metric[1]):
            found.append(f"{metric[1]};dur={duration[1][:20]}")
    return ", ".join(found) or None

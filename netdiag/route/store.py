# SPDX-License-Identifier: Apache-2.0
"""A measurement as JSON and back: versioned, checked on the way in, because a stored file is foreign text."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Hashable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from netdiag.errors import InputUnreadable
from netdiag.route.model import Measurement

__all__ = ["SCHEMA", "from_json", "load", "plain", "restore", "to_json"]

SCHEMA = "netdiag.probes/1"
"""Members are only added within the major version; a reader ignores those that it does not know."""

T = TypeVar("T")
_MOST_BYTES = 256 << 20


def to_json(measurement: Measurement) -> dict[str, Any]:
    """Return plain JSON values, `schema` first; members that hold their default are left out."""
    return {"schema": SCHEMA, **plain(measurement)}


def from_json(document: object) -> Measurement:
    """Return the measurement that `to_json` gave; InputUnreadable says which member is wrong."""
    if not isinstance(document, Mapping):
        raise InputUnreadable("not a JSON object")
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith(SCHEMA.partition("/")[0] + "/"):
        raise InputUnreadable(f"schema: expected {SCHEMA}")
    if schema != SCHEMA:
        raise InputUnreadable(f"schema: {schema[:40]} is newer than {SCHEMA}", hint="read it with a newer netdiag")
    return restore(Measurement, document, "")


def load(data: bytes) -> Measurement:
    """Return the measurement that a file holds; InputUnreadable says where reading ended."""
    if len(data) > _MOST_BYTES:
        raise InputUnreadable(f"{len(data)} bytes: too long for stored probes")
    try:
        document = json.loads(data)
    except UnicodeDecodeError as error:
        raise InputUnreadable(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise InputUnreadable(f"not JSON: {error.msg} at byte {len(error.doc[: error.pos].encode())}") from error
    except RecursionError as error:
        raise InputUnreadable("not JSON of ours: nested too deep") from error
    return from_json(document)


def plain(value: Any) -> Any:
    """Return dataclasses, enums, tuples and mappings of the model as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = {}
        for member in dataclasses.fields(value):
            held = getattr(value, member.name)
            if not _is_default(member, held):
                shown[member.name] = plain(held)
        return shown
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


def _is_default(member: dataclasses.Field[Any], held: object) -> bool:
    if member.default is not dataclasses.MISSING:
        return bool(held == member.default)
    return member.default_factory is not dataclasses.MISSING and bool(held == member.default_factory())


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def restore(kind: type[T], value: object, where: str = "") -> T:
    """Return a dataclass from plain JSON values as `plain` gives them; InputUnreadable names the wrong member."""
    if not isinstance(value, Mapping):
        raise InputUnreadable(f"{where or 'document'}: expected an object")
    hints = _hints(typing.cast("Hashable", kind))
    given = {
        name: _value(hint, value[name], f"{where}.{name}" if where else name)
        for name, hint in hints.items()
        if name in value
    }
    try:
        return kind(**given)
    except TypeError as error:
        raise InputUnreadable(f"{where or 'document'}: {_missing(kind, given)} is missing") from error


def _missing(kind: Any, given: Mapping[str, object]) -> str:
    members = dataclasses.fields(kind)
    unset = (dataclasses.MISSING, dataclasses.MISSING)
    return ", ".join(m.name for m in members if (m.default, m.default_factory) == unset and m.name not in given)


def _value(hint: Any, value: object, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        return None if value is None else _value(typing.get_args(hint)[0], value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise InputUnreadable(f"{where}: expected a list")
        inner = typing.get_args(hint)[0]
        return tuple(_value(inner, item, f"{where}[{number}]") for number, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise InputUnreadable(f"{where}: expected an object")
        inner = typing.get_args(hint)[1]
        return {name: _value(inner, item, f"{where}.{name}") for name, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return restore(typing.cast("type[Any]", hint), value, where)
    return _scalar(hint, value, where)


def _scalar(hint: type, value: object, where: str) -> Any:
    if issubclass(hint, StrEnum):
        try:
            return hint(str(value))
        except ValueError as error:
            raise InputUnreadable(f"{where}: expected one of {', '.join(hint)}") from error
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 1 << 63 else math.inf
    if type(value) is not hint or (isinstance(value, float) and not math.isfinite(value)):
        raise InputUnreadable(f"{where}: expected {hint.__name__}")
    return value

# SPDX-License-Identifier: Apache-2.0
"""The few functions of libbpf 1.x that netdiag calls, declared for ctypes, and libbpf's own words kept for errors."""

from __future__ import annotations

import ctypes
import errno
import os
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

from netdiag.errors import NetdiagError, NotPermitted, Unsupported

__all__ = ["OpenOptions", "failure", "libbpf", "log_lines", "system_error"]

_SONAMES = ("libbpf.so.1",)
_LOG_LINES = 400
_log: deque[str] = deque(maxlen=_LOG_LINES)

_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_P, _I, _S, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64
_SIGNATURES: dict[str, tuple[Any, Sequence[Any]]] = {
    "bpf_object__open_mem": (_P, [_P, ctypes.c_size_t, _P]),
    "bpf_object__load": (_I, [_P]),
    "bpf_object__close": (None, [_P]),
    "bpf_object__btf": (_P, [_P]),
    "bpf_object__next_program": (_P, [_P, _P]),
    "bpf_object__next_map": (_P, [_P, _P]),
    "bpf_program__name": (_S, [_P]),
    "bpf_program__section_name": (_S, [_P]),
    "bpf_program__set_autoload": (_I, [_P, ctypes.c_bool]),
    "bpf_program__autoload": (ctypes.c_bool, [_P]),
    "bpf_program__set_expected_attach_type": (_I, [_P, _I]),
    "bpf_program__attach": (_P, [_P]),
    "bpf_program__attach_cgroup": (_P, [_P, _I]),
    "bpf_program__attach_iter": (_P, [_P, _P]),
    "bpf_program__fd": (_I, [_P]),
    "bpf_link__fd": (_I, [_P]),
    "bpf_iter_create": (_I, [_I]),
    "bpf_map__fd": (_I, [_P]),
    "bpf_map__name": (_S, [_P]),
    "bpf_map__reuse_fd": (_I, [_P, _I]),
    "bpf_map__max_entries": (ctypes.c_uint32, [_P]),
    "bpf_map__set_max_entries": (_I, [_P, ctypes.c_uint32]),
    "bpf_map__initial_value": (_P, [_P, ctypes.POINTER(ctypes.c_size_t)]),
    "bpf_map_update_elem": (_I, [_I, _P, _P, _U64]),
    "bpf_map_lookup_elem": (_I, [_I, _P, _P]),
    "bpf_map_delete_elem": (_I, [_I, _P]),
    "bpf_enable_stats": (_I, [_I]),
    "bpf_obj_get_info_by_fd": (_I, [_I, _P, ctypes.POINTER(ctypes.c_uint32)]),
    "btf__find_by_name_kind": (_I, [_P, _S, ctypes.c_uint32]),
    "btf__type_by_id": (_P, [_P, ctypes.c_uint32]),
    "btf__name_by_offset": (_S, [_P, ctypes.c_uint32]),
    "libbpf_set_print": (_P, [_PRINT]),
}


class OpenOptions(ctypes.Structure):
    """`struct bpf_object_open_opts` of libbpf 1.0 up to the members used; `sz` tells libbpf how far it goes."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("object_name", ctypes.c_char_p),
    )


def _keep(_level: int, template: bytes, arguments: int) -> int:
    # libbpf hands a va_list: both x86-64 and arm64 pass it by reference, which libc's vsnprintf takes as it is
    buffer = ctypes.create_string_buffer(8192)
    ctypes.CDLL(None).vsnprintf(buffer, ctypes.c_size_t(len(buffer)), template, ctypes.c_void_p(arguments))
    _log.extend(buffer.value.decode("utf-8", "replace").splitlines())
    return 0


_KEEP = _PRINT(_keep)
"""Held here, since libbpf calls it for as long as it is loaded."""


@cache
def libbpf() -> ctypes.CDLL:
    """Return libbpf, loaded once. Raises `Unsupported` where it is missing or too old."""
    for name in _SONAMES:
        try:
            library = ctypes.CDLL(name, use_errno=True)
            break
        except OSError:
            continue
    else:
        message = "libbpf 1.x (libbpf.so.1) is not installed"
        raise Unsupported(message, hint="Debian, Ubuntu: apt install libbpf1 · Fedora: dnf install libbpf")
    for symbol, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, symbol)
        except AttributeError as error:
            message = f"the installed libbpf is too old: it has no {symbol}"
            raise Unsupported(message, hint="install libbpf 1.0 or newer") from error
        function.restype, function.argtypes = result, arguments
    library.libbpf_set_print(_KEEP)
    return library


def log_lines(start: int = 0) -> list[str]:
    """Return what libbpf said, oldest first (the last 400 lines)."""
    return list(_log)[start:]


def clear_log() -> None:
    """Forget what libbpf said so far."""
    _log.clear()


def failure(what: str, code: int) -> NetdiagError:
    """Return the error for a failed call: what, why, and the remedy, from errno and libbpf's last useful lines."""
    number = abs(code)
    last = _useful(log_lines())
    said = f"{what}: {os.strerror(number)}" + (f" ({last})" if last else "")
    lockdown = _lockdown()
    if number in {errno.EPERM, errno.EACCES} and _verifier_spoke():
        return Unsupported(f"the kernel's verifier refused {what}:\n" + "\n".join(_verifier_tail()))
    if number in {errno.EPERM, errno.EACCES}:
        if lockdown == "confidentiality":
            message = f"{said}; kernel lockdown is in confidentiality mode, which forbids reading kernel memory"
            return NotPermitted(message, hint="boot with lockdown=integrity, or without Secure Boot lockdown")
        return NotPermitted(said, hint="run it through sudo, or grant CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")
    if number == errno.ENOMEM:
        return Unsupported(said, hint="raise the memory limit (ulimit -l on kernels before 5.11) or free memory")
    return Unsupported(said)


def system_error(what: str) -> NetdiagError:
    """Return the error for the call that just set errno."""
    return failure(what, ctypes.get_errno())


def _lockdown() -> str | None:
    try:
        with open("/sys/kernel/security/lockdown", encoding="ascii") as file:
            words = file.read().split()
    except OSError:
        return None
    return next((word.strip("[]") for word in words if word.startswith("[")), None)


def _verifier_spoke() -> bool:
    return any("BEGIN PROG LOAD LOG" in line for line in _log) and len(_verifier_tail()) > 1


def _verifier_tail(count: int = 12) -> list[str]:
    lines = list(_log)
    try:
        begin = max(i for i, line in enumerate(lines) if "BEGIN PROG LOAD LOG" in line)
        end = max(i for i, line in enumerate(lines) if "END PROG LOAD LOG" in line)
    except ValueError:
        return []
    body = [line for line in lines[begin + 1 : end] if line.strip() and not line.startswith("processed ")]
    return body[-count:]


def _useful(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        text = line.removeprefix("libbpf: ").strip()
        if text and "failed to load object" not in text and "PROG LOAD LOG" not in text and "processed" not in text:
            return text
    return ""

# SPDX-License-Identifier: Apache-2.0
"""How much memory the KV cache of a model needs, by the model's config.json; and whether what is there fits."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdiag.errors import InputUnreadable

__all__ = ["Shape", "needs", "read_config", "token_bytes"]

_MOST_BYTES = 16 << 20
_WIDTHS = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
           "int8": 1}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides the size of a token in the cache."""

    layers: int
    kv_heads: int
    head_size: int
    width: int
    """Bytes of a number."""
    latent: int | None = None
    """Numbers of a token and layer where keys and values are kept compressed (MLA)."""
    max_length: int | None = None
    """Longest context that the model has."""


def read_config(path: str | os.PathLike[str], dtype: str | None = None) -> Shape:
    """Return the shape that a config.json tells; InputUnreadable where it does not. `dtype`: of the cache."""
    file = Path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputUnreadable(f"{file}: larger than {_MOST_BYTES >> 20} MiB")
        table = json.loads(file.read_bytes())
    except OSError as error:
        raise InputUnreadable(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputUnreadable(f"{file}: no JSON: {str(error)[:100]}") from None
    if not isinstance(table, dict):
        raise InputUnreadable(f"{file}: no table")
    inner = table.get("text_config")
    if isinstance(inner, dict):  # models that see as well
        table = {**table, **inner}
    name = str(dtype or table.get("torch_dtype") or table.get("dtype") or "").removeprefix("torch.")
    width = _WIDTHS.get(name)
    layers = _whole(table, "num_hidden_layers", "n_layer", "num_layers")
    heads = _whole(table, "num_attention_heads", "n_head")
    kv_heads = _whole(table, "num_key_value_heads", "num_kv_heads", "multi_query_group_num") or heads
    hidden = _whole(table, "hidden_size", "n_embd", "d_model")
    head_size = _whole(table, "head_dim") or (hidden // heads if hidden and heads else None)
    rank, rope = _whole(table, "kv_lora_rank"), _whole(table, "qk_rope_head_dim")
    if width is None:
        raise InputUnreadable(f"{file}: the number format of the cache is not known", hint="name it with --kv-dtype")
    if not layers or not kv_heads or not head_size:
        raise InputUnreadable(f"{file}: layers, heads or their size are missing")
    return Shape(
        layers=layers, kv_heads=kv_heads, head_size=head_size, width=width,
        latent=rank + rope if rank and rope else None,
        max_length=_whole(table, "max_position_embeddings", "n_positions", "max_sequence_length"),
    )  # fmt: skip


def _whole(table: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = table.get(name)
        if type(value) is int and 0 < value < 1 << 40:
            return value
    return None


def token_bytes(shape: Shape) -> int:
    """Return bytes of one token in the cache over all layers: keys and values of each head, or what stands for them."""
    numbers = shape.latent or 2 * shape.kv_heads * shape.head_size
    return shape.layers * numbers * shape.width


def needs(shape: Shape, tokens: int | None, sequences: int | None, length: int | None) -> dict[str, int | None]:
    """Return the arithmetic: bytes of a token, of the cache, of what may be asked at most; whole sequences that fit."""
    each = token_bytes(shape)
    length = length or shape.max_length
    return {
        "token_bytes": each,
        "tokens": tokens,
        "cache_bytes": None if tokens is None else tokens * each,
        "longest": length,
        "wanted_bytes": sequences * length * each if sequences and length else None,
        "whole_sequences": tokens // length if tokens is not None and length else None,
    }

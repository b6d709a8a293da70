# SPDX-License-Identifier: Apache-2.0
"""The KV cache by a model's config: known models by hand, and configs that tell too little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from netdiag.errors import InputUnreadable
from netdiag.weights.kv import needs, read_config, token_bytes

LLAMA = {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
         "torch_dtype": "bfloat16", "max_position_embeddings": 8192}  # fmt: skip
DEEPSEEK = {"num_hidden_layers": 61, "num_attention_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512,
            "qk_rope_head_dim": 64, "torch_dtype": "bfloat16"}  # fmt: skip


def config(folder: Path, table: Any) -> Path:
    path = folder / "config.json"
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return path


@pytest.mark.parametrize(
    ("table", "dtype", "each"),
    [
        (LLAMA, None, 131_072),  # 2 x 8 heads x 128 x 2 bytes x 32 layers
        (LLAMA, "fp8", 65_536),
        ({**LLAMA, "num_key_value_heads": None}, None, 524_288),  # every head its own
        ({**LLAMA, "head_dim": 64}, None, 65_536),
        (DEEPSEEK, None, 70_272),  # (512 + 64) x 2 x 61: keys and values compressed
        ({"text_config": LLAMA, "torch_dtype": "bfloat16"}, None, 131_072),
    ],
)
def test_bytes_of_a_token(tmp_path: Path, table: dict[str, Any], dtype: str | None, each: int) -> None:
    assert token_bytes(read_config(config(tmp_path, table), dtype)) == each


def test_what_fits_is_arithmetic_and_unknown_stays_unknown(tmp_path: Path) -> None:
    shape = read_config(config(tmp_path, LLAMA))
    assert needs(shape, 100_000, 4, None) == {
        "token_bytes": 131_072, "tokens": 100_000, "cache_bytes": 13_107_200_000, "longest": 8192,
        "wanted_bytes": 4 * 8192 * 131_072, "whole_sequences": 12,
    }  # fmt: skip
    unknown = needs(shape, None, None, None)
    assert (unknown["cache_bytes"], unknown["wanted_bytes"], unknown["whole_sequences"]) == (None, None, None)


@pytest.mark.parametrize(
    "table",
    ["{", "[1]", "[" * 100_000, {}, {**LLAMA, "torch_dtype": None}, {**LLAMA, "num_hidden_layers": "32"},
     {**LLAMA, "num_hidden_layers": -1}, {**LLAMA, "hidden_size": 10**30}],
)  # fmt: skip
def test_a_config_that_tells_too_little_is_refused(tmp_path: Path, table: Any) -> None:
    with pytest.raises(InputUnreadable):
        read_config(config(tmp_path, table))
    with pytest.raises(InputUnreadable):
        read_config(tmp_path / "none")

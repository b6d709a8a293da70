# SPDX-License-Identifier: Apache-2.0
"""Metrics of serving engines (Prometheus text) under one set of names, and what two looks at them show.

Names differ by engine and version: each member has its aliases, and one that an engine does not tell is unknown, never
0. Engines behind one port (data parallel) stay apart by their label `engine`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from netdiag.findings import Finding, Severity
from netdiag.units import format_ms, format_percent
from netdiag.weights.case import make

__all__ = ["ENGINES", "Engine", "Look", "cache_tokens", "claims", "looks", "mean_s", "shares"]

_MOST_LINES = 200_000
_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How an engine names what we ask: member → aliases, newest first; a label may be part: `name{key=value}`."""

    name: str
    prefix: str
    gauges: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    times: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Histograms or summaries in seconds, by the start of their names: `_sum` and `_count` follow."""


ENGINES: tuple[Engine, ...] = (
    Engine(
        name="vllm",
        prefix="vllm:",
        gauges={
            "waiting": ("vllm:num_requests_waiting",),
            "running": ("vllm:num_requests_running",),
            "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        },
        counters={"preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions")},
        times={
            "queue": ("vllm:request_queue_time_seconds",),
            "ttft": ("vllm:time_to_first_token_seconds",),
            "prefill": ("vllm:request_prefill_time_seconds",),
        },
    ),
    Engine(
        name="sglang",
        prefix="sglang:",
        gauges={
            "waiting": ("sglang:num_queue_reqs",),
            "running": ("sglang:num_running_reqs",),
            "kv_usage": ("sglang:token_usage",),
        },
        times={"ttft": ("sglang:time_to_first_token_seconds",), "queue": ("sglang:queue_time_seconds",)},
    ),
    Engine(
        name="trtllm-serve",
        prefix="trtllm_",
        gauges={
            "waiting": ("trtllm_num_requests_waiting",),
            "running": ("trtllm_num_requests_running",),
            "kv_usage": ("trtllm_kv_cache_utilization",),
        },
        times={"ttft": ("trtllm_time_to_first_token_seconds",), "queue": ("trtllm_request_queue_time_seconds",)},
    ),
    Engine(
        name="triton-trtllm",
        prefix="nv_trt_llm_",
        gauges={
            "waiting": ("nv_trt_llm_request_metrics{request_type=waiting}",),
            "running": ("nv_trt_llm_request_metrics{request_type=scheduled}",),
            "kv_usage": ("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}",),
        },
    ),
    Engine(
        name="triton",
        prefix="nv_inference_",
        gauges={"waiting": ("nv_inference_pending_request_count",)},
        counters={
            "queue_us": ("nv_inference_queue_duration_us",),
            "requests": ("nv_inference_request_success",),
            "total_us": ("nv_inference_request_duration_us",),
        },
    ),
    Engine(
        name="tgi",
        prefix="tgi_",
        gauges={"waiting": ("tgi_queue_size",), "running": ("tgi_batch_current_size",)},
        times={"queue": ("tgi_request_queue_duration",)},
    ),
    Engine(
        name="llama.cpp",
        prefix="llamacpp:",
        gauges={
            "waiting": ("llamacpp:requests_deferred",),
            "running": ("llamacpp:requests_processing",),
            "kv_usage": ("llamacpp:kv_cache_usage_ratio",),
        },
    ),
)
"""In this order: Triton's own metrics stand beside those of its TensorRT-LLM backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One engine at one instant; None = it does not tell."""

    engine: str
    label: str
    """Of the data-parallel rank, empty where there is one."""
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Time → (seconds, count), cumulative."""


def looks(text: str) -> list[Look]:
    """Return the engines in a page of Prometheus text; lines that are none are passed over."""
    values: dict[str, dict[str, float]] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        found = _LINE.match(line)
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        if math.isnan(value):
            continue
        of = values.setdefault(str(labels.get("engine", labels.get("engine_index", ""))), {})
        for name in (found[1], *(f"{found[1]}{{{key}={label}}}" for key, label in labels.items())):
            of[name] = of.get(name, 0.0) + value  # models and ranks behind one engine add up
    return [look for label, of in sorted(values.items()) for look in _looks(label, of)]


def cache_tokens(text: str) -> int | None:
    """Return how many tokens the KV cache holds, as vLLM tells (blocks times their size); None where nobody does."""
    for line in text.splitlines()[:_MOST_LINES]:
        if line.startswith("vllm:cache_config_info{"):
            labels = dict(_LABEL.findall(line))
            size, blocks = labels.get("block_size", ""), labels.get("num_gpu_blocks", "")
            if size.isdecimal() and blocks.isdecimal() and len(size + blocks) < 30:
                return int(size) * int(blocks)
    return None


def _looks(label: str, values: Mapping[str, float]) -> Iterator[Look]:
    for engine in ENGINES:
        gauges = {name: _first(values, aliases) for name, aliases in engine.gauges.items()}
        counters = {name: found for name, a in engine.counters.items() if (found := _first(values, a)) is not None}
        sums = {}
        for name, aliases in engine.times.items():
            seconds = _first(values, tuple(f"{alias}_sum" for alias in aliases))
            count = _first(values, tuple(f"{alias}_count" for alias in aliases))
            if seconds is not None and count is not None:
                sums[name] = (seconds, count)
        if any(value is not None for value in gauges.values()) or counters or sums:
            yield Look(
                engine=engine.name,
                label=label,
                waiting=gauges.get("waiting"),
                running=gauges.get("running"),
                kv_usage=gauges.get("kv_usage"),
                counters=counters,
                sums=sums,
            )
            return


def _first(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    return next((values[name] for name in names if name in values), None)


def mean_s(before: Look, after: Look, name: str) -> float | None:
    """Return the mean of a time between two looks, seconds; None where nothing ended or the engine started again."""
    first, last = before.sums.get(name), after.sums.get(name)
    if first is None or last is None or last[1] <= first[1] or last[0] < first[0]:
        return None
    return (last[0] - first[0]) / (last[1] - first[1])


def claims(before: Sequence[Look], after: Sequence[Look], *, limit: int | None = None) -> list[Finding]:
    """Return what two looks show; `limit`: sequences that may run at once (max_num_seqs), where it is known."""
    earlier = {(look.engine, look.label): look for look in before}
    found: list[Finding] = []
    for look in after:
        first = earlier.get((look.engine, look.label))
        if first is not None:
            found += _claims(first, look, limit)
    return found


def _claims(first: Look, look: Look, limit: int | None) -> Iterator[Finding]:
    waiting = None if first.waiting is None or look.waiting is None else min(first.waiting, look.waiting)
    earlier, later = first.counters.get("preemptions"), look.counters.get("preemptions")
    preempted = None if earlier is None or later is None else later - earlier
    saturated = look.kv_usage is not None and look.kv_usage > 0.9 and preempted is not None and preempted > 0
    if saturated:
        yield make(
            "serving.kv-saturated", severity=Severity.WARNING, confidence=0.85, wall_ms=None,
            values={"usage": format_percent(look.kv_usage), "preempted": f"{preempted:,.0f}"},
            what_if="without preemptions no request is computed twice",
        )  # fmt: skip
    elif limit and waiting and look.running is not None and look.running < 0.5 * limit:
        yield make(
            "serving.batch-underfilled", severity=Severity.WARNING, confidence=0.7, wall_ms=None,
            values={"running": f"{look.running:,.0f}", "limit": f"{limit:,}", "waiting": f"{waiting:,.0f}"},
            what_if=f"room for {limit - look.running:,.0f} more at once",
        )  # fmt: skip
    queue, ttft = mean_s(first, look, "queue"), mean_s(first, look, "ttft")
    if queue is None or ttft is None or not waiting or queue <= 0.5 * ttft or saturated:
        return
    ended = look.sums["queue"][1] - first.sums["queue"][1]
    yield make(
        "serving.queue-dominates", severity=Severity.WARNING, confidence=0.85,
        wall_ms=None, cost_ms=queue * ended * 1e3,
        values={"share": format_percent(queue / ttft), "queue": format_ms(queue * 1e3), "ttft": format_ms(ttft * 1e3),
                "waiting": f"{waiting:,.0f}"},
        what_if=f"without the queue the first token comes after {format_ms((ttft - queue) * 1e3)}",
    )  # fmt: skip


def shares(before: Look, after: Look, client_ttft_ms: float) -> dict[str, float | None]:
    """Return how a client's time to first token splits: network and proxy, queue, prefill; milliseconds."""
    queue, prefill, ttft = (mean_s(before, after, name) for name in ("queue", "prefill", "ttft"))
    return {
        "client_ms": client_ttft_ms,
        "network_ms": None if ttft is None else max(0.0, client_ttft_ms - ttft * 1e3),
        "queue_ms": None if queue is None else queue * 1e3,
        "prefill_ms": None if prefill is None else prefill * 1e3,
    }

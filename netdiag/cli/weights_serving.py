# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights serving`: two looks at an engine's metrics, and where a client's time to first token goes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import format_option
from netdiag.errors import InputUnreadable, UsageError

if TYPE_CHECKING:
    from netdiag.findings import Finding
    from netdiag.weights.serving import Look

__all__ = ["command"]

_MOST_BYTES = 32 << 20
_TIMEOUT_S = 10.0


@click.command("serving", short_help="Say what an engine's metrics show: queue, KV cache, batch.")
@format_option("table", "json")
@click.option("--seconds", metavar="S", type=click.FloatRange(0.1, 3600), default=10.0, show_default=True,
              help="Time between the two looks at a URL.")  # fmt: skip
@click.option("--max-seqs", metavar="N", type=click.IntRange(1), help="Sequences that may run at once (max_num_seqs).")
@click.option("--ttft", metavar="MS", type=click.FloatRange(0), help="Time to first token that clients see.")
@click.option("--trace", "recording", metavar="RECORDING", help="Take that time from a recording, or `last`.")
@click.option("--model", metavar="CONFIG.json", help="The model's config, to compute its KV cache.")
@click.option("--kv-dtype", metavar="NAME", help="Number format of the cache, where it is not the model's: fp8.")
@click.option("--max-len", metavar="N", type=click.IntRange(1), help="Longest context (max_model_len).")
@click.argument("sources", metavar="URL | FILE FILE", nargs=-1, required=True)
def command(*, sources: tuple[str, ...], format_: str, **chosen: Any) -> None:
    """Look twice at the metrics of vLLM, SGLang, TGI, Triton, TensorRT-LLM or llama.cpp.

    URL is the engine's page of metrics, and the only one that is asked. Two FILEs are pages
    that were kept, the older one first. A client's time to first token (--ttft, --trace)
    is set beside the engine's: network, queue, prefill.

    \b
    netdiag weights serving http://127.0.0.1:8000/metrics --max-seqs 256
    netdiag weights serving before.txt after.txt --trace last
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.results import write_text
    from netdiag.weights.serving import claims, looks

    first, second = _pages(sources, chosen["seconds"])
    before, after = looks(first), looks(second)
    if not after:
        raise InputUnreadable("no metrics of an engine that is known", hint="netdiag weights serving --help names them")
    found = claims(before, after, limit=chosen["max_seqs"])
    cache = _cache(second, chosen)
    parts = _parts(before, after, _client_ms(chosen))
    if format_ == "json":
        made = {
            "engines": [_engine(one) for one in after],
            "client": parts,
            "kv_cache": cache,
            "findings": [one.to_json() for one in found],
        }
        write_text(json.dumps(made) + "\n", None, sys.stdout)
        return
    write_text("\n".join(_lines(before, after, parts, cache, found)) + "\n", None, sys.stdout)


def _pages(sources: Sequence[str], seconds: float) -> tuple[str, str]:
    if len(sources) == 1 and sources[0].startswith(("http://", "https://")):
        first = _fetched(sources[0])
        time.sleep(seconds)
        return first, _fetched(sources[0])
    if len(sources) != 2:
        raise UsageError("name one URL, or two files of metrics")
    return _read(sources[0]), _read(sources[1])


def _fetched(url: str) -> str:
    from netdiag import web

    try:
        status, body = web.ask(url, timeout_s=_TIMEOUT_S, most=_MOST_BYTES)
        where = web.origin(url)
    except ValueError as error:
        raise UsageError(f"that is no URL of metrics: {error}") from error
    except OSError as error:
        raise InputUnreadable(f"no metrics came: {error}") from error
    if status != 200:
        raise InputUnreadable(
            f"{where} answered {status}", hint="llama.cpp and SGLang need --metrics, --enable-metrics"
        )
    return body.decode("utf-8", "replace")


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error


def _client_ms(chosen: dict[str, Any]) -> float | None:
    """Return the mean time to first token of clients, ms: as given, or as a recording shows it."""
    if chosen["ttft"] is not None or chosen["recording"] is None:
        given: float | None = chosen["ttft"]
        return given
    from netdiag.loading import load

    found: Mapping[str, Any] | None = load(chosen["recording"]).document["summary"]["first_token_ms"]
    mean: float | None = found["mean"] if found else None
    if mean is None:
        raise InputUnreadable("no request of that recording shows its first token")
    return mean


def _parts(before: Sequence[Look], after: Sequence[Look], client_ms: float | None) -> dict[str, float | None] | None:
    from netdiag.weights.serving import shares

    pairs = [(a, b) for b in after for a in before if (a.engine, a.label) == (b.engine, b.label)]
    if client_ms is None or len(pairs) != 1:
        return None
    return shares(*pairs[0], client_ms)


def _cache(text: str, chosen: dict[str, Any]) -> dict[str, int | None] | None:
    from netdiag.weights.kv import needs, read_config
    from netdiag.weights.serving import cache_tokens

    if chosen["model"] is None:
        return None
    shape = read_config(chosen["model"], chosen["kv_dtype"])
    return needs(shape, cache_tokens(text), chosen["max_seqs"], chosen["max_len"])


def _engine(one: Look) -> dict[str, Any]:
    return {
        "engine": one.engine, "rank": one.label or None, "waiting": one.waiting, "running": one.running,
        "kv_usage": one.kv_usage, "counters": dict(one.counters),
    }  # fmt: skip


def _lines(
    before: Sequence[Look],
    after: Sequence[Look],
    parts: Mapping[str, float | None] | None,
    cache: Mapping[str, int | None] | None,
    found: Sequence[Finding],
) -> list[str]:
    from netdiag.text import fit, safe
    from netdiag.units import format_ms, format_percent
    from netdiag.weights.serving import mean_s

    lines = []
    for claim in found:
        lines += [f"{claim.severity.value.upper()}  {safe(claim.title)}", f"  what   {claim.code}",
                  *(f"  proof  {safe(row.note)}" for row in claim.evidence[:1]),
                  *(f"  fix    {safe(row.text)}" for row in claim.advice[:1])]  # fmt: skip
        if claim.what_if:
            lines.append(f"  then   {safe(claim.what_if)}")
    if not found:
        lines.append("nothing  No cause stands out.")
    lines.append(f"{fit('engine', 16)}{'rank':>6}{'waiting':>9}{'running':>9}{'KV used':>9}{'queue':>9}{'TTFT':>9}")
    earlier = {(one.engine, one.label): one for one in before}
    for one in after:
        first = earlier.get((one.engine, one.label))
        times = [mean_s(first, one, name) if first else None for name in ("queue", "ttft")]
        cells = (
            safe(one.label) or "–",
            *("–" if value is None else f"{value:,.0f}" for value in (one.waiting, one.running)),
            format_percent(one.kv_usage),
        )
        shown = [format_ms(None if value is None else value * 1e3) for value in times]
        lines.append(f"{fit(one.engine, 16)}{cells[0]:>6}" + "".join(f"{cell:>9}" for cell in (*cells[1:], *shown)))
    if parts is not None:
        words = [f"{name.removesuffix('_ms')} {format_ms(value)}" for name, value in parts.items()]
        lines.append(f"client's first token  {' · '.join(words)}")
    if cache is not None:
        lines.append(f"KV cache  {_arithmetic(cache)}")
    return lines


def _arithmetic(cache: Mapping[str, int | None]) -> str:
    from netdiag.units import format_bytes

    words = [f"{format_bytes(cache['token_bytes'])} a token"]
    if cache["tokens"] is not None:
        words.append(f"{cache['tokens']:,} tokens are {format_bytes(cache['cache_bytes'])}")
    if cache["whole_sequences"] is not None:
        words.append(f"room for {cache['whole_sequences']:,} sequences of {cache['longest']:,}")
    if cache["wanted_bytes"] is not None:
        words.append(f"all that may run at once need {format_bytes(cache['wanted_bytes'])}")
    return " · ".join(words)

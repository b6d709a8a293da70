# SPDX-License-Identifier: Apache-2.0
"""Metrics of seven engines under one set of names, and what two looks show."""

from __future__ import annotations

import pytest

from netdiag.weights.serving import claims, looks, shares

VLLM = """# HELP vllm:num_requests_waiting x
vllm:num_requests_waiting{engine="0",model_name="m"} %(waiting)s
vllm:num_requests_running{engine="0",model_name="m"} %(running)s
vllm:kv_cache_usage_perc{engine="0",model_name="m"} %(usage)s
vllm:num_preemptions_total{engine="0",model_name="m"} %(preempted)s
vllm:request_queue_time_seconds_sum{engine="0"} %(queue)s
vllm:request_queue_time_seconds_count{engine="0"} %(count)s
vllm:time_to_first_token_seconds_sum{engine="0"} %(ttft)s
vllm:time_to_first_token_seconds_count{engine="0"} %(count)s
"""
QUIET = {"waiting": 0, "running": 2, "usage": 0.3, "preempted": 0, "queue": 1.0, "ttft": 10.0, "count": 10}


def vllm(**changed):
    return looks(VLLM % {**QUIET, **changed})


TRITON = 'nv_inference_pending_request_count{model="a"} 1\nnv_inference_pending_request_count{model="b"} 2\n'
TRITON_TRTLLM = """nv_trt_llm_request_metrics{request_type="waiting"} 6
nv_trt_llm_request_metrics{request_type="scheduled"} 7
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0.75
nv_inference_pending_request_count 9
"""


@pytest.mark.parametrize(
    ("text", "engine", "waiting", "running", "usage"),
    [
        ("vllm:num_requests_waiting 3\nvllm:gpu_cache_usage_perc 0.5\n", "vllm", 3, None, 0.5),
        ("sglang:num_queue_reqs 4\nsglang:num_running_reqs 5\nsglang:token_usage 0.25\n", "sglang", 4, 5, 0.25),
        ("tgi_queue_size 1\ntgi_batch_current_size 8\n", "tgi", 1, 8, None),
        (TRITON, "triton", 3, None, None),
        (TRITON_TRTLLM, "triton-trtllm", 6, 7, 0.75),
        ("trtllm_num_requests_waiting 2\ntrtllm_kv_cache_utilization 0.1\n", "trtllm-serve", 2, None, 0.1),
        ("llamacpp:requests_deferred 1\nllamacpp:requests_processing 1\n", "llama.cpp", 1, 1, None),
    ],
)  # fmt: skip
def test_an_engine_under_our_names(text, engine, waiting, running, usage):
    (look,) = looks(text)
    assert (look.engine, look.waiting, look.running, look.kv_usage) == (engine, waiting, running, usage)


def test_ranks_stay_apart_and_nonsense_is_passed_over():
    text = (
        'vllm:num_requests_waiting{engine="0"} 1\nvllm:num_requests_waiting{engine="1"} 2\nx{ 3\nx y\n\0\nvllm:y NaN\n'
    )
    assert [(look.label, look.waiting) for look in looks(text)] == [("0", 1), ("1", 2)]
    assert looks("") == looks("process_cpu_seconds_total 3\n") == []


def codes(before, after, **more):
    return [finding.code for finding in claims(before, after, **more)]


def test_a_quiet_engine_has_no_finding():
    assert codes(vllm(), vllm(queue=1.1, ttft=20.0, count=20), limit=4) == []


def test_the_queue_is_more_than_half_of_the_first_token():
    busy = {"waiting": 9}
    (found,) = claims(vllm(**busy), vllm(**busy, queue=9.0, ttft=20.0, count=20))
    assert found.code == "serving.queue-dominates"
    assert found.cost_ms == pytest.approx(8000)
    assert codes(vllm(), vllm(queue=9.0, ttft=20.0, count=20)) == []  # nobody waits: it was one burst
    assert codes(vllm(**busy), vllm(**busy, queue=1.0, ttft=1.0, count=2)) == []  # it started again meanwhile


def test_a_full_cache_is_one_cause():
    full = {"waiting": 9, "usage": 0.97}
    assert codes(vllm(**full), vllm(**full, preempted=4, queue=9.0, ttft=20.0, count=20)) == ["serving.kv-saturated"]
    assert codes(vllm(usage=0.97), vllm(usage=0.97)) == []  # full and nobody thrown out: good use


@pytest.mark.parametrize("member", ["num_preemptions", "kv_cache", "num_requests_waiting"])
def test_what_one_look_does_not_tell_is_no_rise_from_nothing(member):
    full = {"waiting": 9, "usage": 0.97, "preempted": 4}
    page = VLLM % {**QUIET, **full}
    silent = "\n".join(line for line in page.splitlines() if member not in line)
    assert codes(looks(silent), looks(page), limit=None) == []


def test_a_batch_with_room_while_requests_wait():
    busy = {"waiting": 9, "running": 4}
    assert codes(vllm(**busy), vllm(**busy), limit=64) == ["serving.batch-underfilled"]
    assert codes(vllm(**busy), vllm(**busy)) == []  # the limit is not known
    assert codes(vllm(**busy), vllm(**busy), limit=6) == []


def test_a_clients_first_token_is_split():
    (before,), (after,) = vllm(), vllm(queue=6.0, ttft=20.0, count=20)
    split = shares(before, after, 1250.0)
    assert split == {"client_ms": 1250.0, "network_ms": 250.0, "queue_ms": 500.0, "prefill_ms": None}

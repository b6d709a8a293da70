# SPDX-License-Identifier: Apache-2.0
"""Command lines keep what was run and lose every value."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.processes.masking import MASK, MAX_WORDS, mask_argv

KEY = "sk-proj-9fK2mQ7xT4bV8nL1"


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["python", "app.py", "--key=abc"], ["python", "app.py", "--key={…}"]),
        (["/usr/bin/python3.11", "-u", "src/app.py", "hello"], ["/usr/bin/python3.11", "-u", "src/app.py", MASK]),
        (["python", "-m", "http.server", "8000"], ["python", "-m", "http.server", MASK]),
        (["python", "-c", "print('secret')", "x"], ["python", "-c", MASK, MASK]),
        (["python", "-X", "dev", "app.py", "other.py"], ["python", "-X", MASK, "app.py", MASK]),
        (["python", "manage", "prompt.py"], ["python", MASK, MASK]),
        (["node", "--max-old-space-size=4096", "client.mjs", "-k", KEY],
         ["node", "--max-old-space-size={…}", "client.mjs", "-k", MASK]),
        (["java", "-jar", "app.jar", "--token", KEY], ["java", "-jar", "app.jar", "--token", MASK]),
        (["java", f"-Dpassword={KEY}", "Main"], ["java", "-Dpassword={…}", MASK]),
        (["bash", "-lc", "curl https://u:p@host/"], ["bash", "-l{…}", MASK]),
        (["curl", "-sS", "-H", "Authorization: Bearer x", f"https://h/?key={KEY}"],
         ["curl", "-s{…}", "-H", MASK, MASK]),
        (["mysql", "-psecret", "--password=secret", "db"], ["mysql", "-p{…}", "--password={…}", MASK]),
        (["env", "OPENAI_API_KEY=abc", "app"], ["env", MASK, MASK]),
        (["tool", "--", "-", "12"], ["tool", "--", "-", MASK]),
        (["nginx: worker process"], [MASK]),
        ([f"/tmp/{KEY}/run"], [MASK]),
        ([], []),
    ],
)  # fmt: skip
def test_what_was_run_stays_readable(argv, masked):
    assert mask_argv(argv) == masked


def test_asked_to_keep_it_keeps_everything():
    assert mask_argv(["python", "app.py", KEY], keep=True) == ["python", "app.py", KEY]


def test_a_very_long_line_ends_in_one_mask():
    assert mask_argv(["tool", *["--x"] * 500]) == ["tool", *["--x"] * (MAX_WORDS - 1), MASK]


TOKENS = st.one_of(
    st.text(string.hexdigits.lower(), min_size=24, max_size=64).filter(lambda word: not word.isalpha()),
    st.from_regex(r"(sk-|ghp_|xoxb-|AKIA)[A-Za-z0-9]{5}[0-9][a-z][A-Z][A-Za-z0-9]{12,30}", fullmatch=True),
    st.from_regex(r"eyJ[A-Za-z0-9_-]{20,60}\.[A-Za-z0-9_-]{20,60}\.[A-Za-z0-9_-]{20,43}", fullmatch=True),
    st.text(string.ascii_letters + string.digits + "!$%&/()?#+*.,;:_ ", min_size=6, max_size=30),
)
PROGRAMS = st.sampled_from(["python", "/opt/venv/bin/python3", "node", "curl", "./client", "java", "sh", "Rscript"])
PLACES = st.sampled_from(
    [
        "{}", "--key={}", "--api-key={}", "-k={}", "-p{}", "KEY={}", "-DKEY={}", "https://u:{}@host/path", "{}.txt",
        "https://host/?token={}", "Authorization: Bearer {}", "--header=x-api-key: {}", "@{}", "x={}&y=1",
    ]
)  # fmt: skip
HARMLESS = st.sampled_from(["-v", "--verbose", "app.py", "client.mjs", "-m", "-c", "-jar", "--", "-X", "dev", "--key"])


@given(PROGRAMS, st.lists(HARMLESS, max_size=4), PLACES, TOKENS, st.lists(HARMLESS, max_size=3))
def test_nothing_that_looks_like_a_secret_survives(program, before, place, token, after):
    masked = mask_argv([program, *before, place.format(token), *after])
    kept = {program, *before, *after}
    assert all(token not in word or word in kept for word in masked)


@given(st.lists(st.text(max_size=30), max_size=80))
def test_any_line_is_masked_word_by_word(argv):
    masked = mask_argv(argv)
    assert len(masked) == min(len(argv), MAX_WORDS + 1)
    assert all(len(word) <= max(len(given), 60) for given, word in zip(argv, masked[:MAX_WORDS], strict=False))


@given(st.lists(st.text(string.printable, max_size=12), max_size=6))
def test_masking_twice_changes_nothing_more(argv):
    once = mask_argv(["tool", *argv])
    assert mask_argv(once) == once

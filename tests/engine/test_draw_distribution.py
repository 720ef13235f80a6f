"""Tokens drawn with drafts follow the distribution of the sampling parameters (chi-square)."""

from collections import Counter
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.engine.ops.torch_kernels import TorchKernels
from tests.engine.hash_machine import VOCABULARY, hashed_logits

LETTERS = "abcd"
CYCLE = "aaabaacaadabbabcabdacbaccacdadbadcaddbbbcbbdbccbcdbdcbddcccdcddd"
"""Any three letters once, so that something is found behind each output."""

PROMPT = CYCLE + CYCLE[:2] + "bca"
OUTPUT_TOKENS = 4
LEAST_EXPECTED = 5.0
CASES: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.8},
    "top_k": {"temperature": 1.2, "top_k": 3},
    "top_p": {"temperature": 1.0, "top_p": 0.8},
    "min_p": {"temperature": 1.0, "min_p": 0.2},
    "penalties": {
        "temperature": 0.9,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.6,
    },
    "mask": {"temperature": 0.8, "constraint": ConstraintSpec("regex", "[abc][bcd][abcd]{2}")},
    "all": {
        "temperature": 1.1,
        "top_k": 4,
        "top_p": 0.95,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.6,
        "constraint": ConstraintSpec("regex", "[abc][bcd][abcd]{2}"),
    },
}
ALLOWED = "abc", "bcd", LETTERS, LETTERS
"""Letters that the masks leave at each place."""


def with_likely_letters(machine: type, letter_ids: list[int]) -> type:
    """A hash model that seldom writes anything but the letters."""

    class Spelling(machine):
        def __init__(self, *args):
            super().__init__(*args)
            self.model.kernels = TorchKernels()

        def forward(self, parts):
            logits = super().forward(parts)
            logits[:, letter_ids] += 8.0
            return logits

    return Spelling


def distribution(
    context: list[int], letter_ids: list[int], prompt_tokens: int, how: dict[str, Any]
) -> np.ndarray:
    """Probabilities of the next token, by definition. float64 [vocabulary]"""
    known = hashed_logits()
    digest = blake2b(np.array(context, dtype=np.int32).tobytes(), digest_size=8).digest()
    logits = known[int.from_bytes(digest, "big") % len(known)].astype(np.float64)
    logits[257] = -np.inf
    logits[letter_ids] += 8.0
    factor = how.get("repetition_penalty", 1.0)
    for token in set(context):
        logits[token] *= 1 / factor if logits[token] > 0 else factor
    for token, count in Counter(context[prompt_tokens:]).items():
        logits[token] -= how.get("presence_penalty", 0.0)
        logits[token] -= count * how.get("frequency_penalty", 0.0)
    if "constraint" in how:
        letters = ALLOWED[len(context) - prompt_tokens]
        allowed = [letter_ids[LETTERS.index(letter)] for letter in letters]
        logits[np.setdiff1d(np.arange(VOCABULARY), allowed)] = -np.inf
    weights = np.exp((logits - logits.max()) / how["temperature"])
    order = np.argsort(-weights, kind="stable")
    weights[order[how.get("top_k") or VOCABULARY :]] = 0.0
    reached = np.cumsum(weights[order])
    before = reached - weights[order]
    weights[order[before >= how.get("top_p", 1.0) * reached[-1]]] = 0.0
    weights[weights < how.get("min_p", 0.0) * weights.max()] = 0.0
    return np.asarray(weights / weights.sum())


def deviation(counts: dict[tuple[int, ...], Counter[int]], expected: Any) -> float:
    """How many standard deviations Pearson's statistic is above its mean (Wilson and Hilferty).

    Args:
        counts: How often each token was drawn behind each context.
        expected: Probabilities of the next token behind a context.
    """
    total, freedom = 0.0, 0
    for context, drawn in counts.items():
        draws = drawn.total()
        wanted = draws * expected(list(context))
        found = np.bincount(list(drawn.elements()), minlength=VOCABULARY)
        assert not found[wanted == 0.0].any(), "a token of probability 0 was drawn"
        cells = wanted >= LEAST_EXPECTED
        wanted = np.append(wanted[cells], wanted[~cells].sum())
        found = np.append(found[cells], found[~cells].sum())
        if wanted[-1] < LEAST_EXPECTED:  # the rest joins the rarest cell
            if len(wanted) < 3:
                continue
            rarest = int(wanted[:-1].argmin())
            for one in (wanted, found):
                one[rarest] += one[-1]
            wanted, found = wanted[:-1], found[:-1]
        if len(wanted) > 1:
            total += float(((found - wanted) ** 2 / wanted).sum())
            freedom += len(wanted) - 1
    assert freedom > 10
    spread = 2 / (9 * freedom)
    return float(((total / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5)


@pytest.mark.parametrize(
    ("case", "draws"),
    [
        ("temperature", 2000),
        ("all", 2000),
        *(pytest.param(case, 100_000, marks=pytest.mark.slow) for case in CASES),
    ],
)
def test_draws_with_drafts_follow_the_distribution(case, draws, tokenizer_dir, engine):
    """Each place is drafted from the prompt, so that drafts depend on nothing but the context."""
    how = CASES[case]
    ids_by_text = {chr(at): at - ord("!") for at in range(ord("!"), ord("~") + 1)}
    letter_ids = [ids_by_text[letter] for letter in LETTERS]
    prompt = [ids_by_text[letter] for letter in PROMPT]
    core = engine.hash_core(
        tokenizer_dir,
        speculate_tokens=OUTPUT_TOKENS,
        runner=with_likely_letters(engine.hash_machine, letter_ids),
        eos_bias=-np.inf,
        page_tokens=8,
    )
    counts: dict[tuple[int, ...], Counter[int]] = {}
    accepted = rejected = 0
    numbers = iter(range(draws // OUTPUT_TOKENS))
    while batch := [number for _, number in zip(range(64), numbers, strict=False)]:
        for number in batch:
            one = engine.request(number, prompt, seed=number, max_tokens=OUTPUT_TOKENS, **how)
            core.submit(engine.replace(one, site=str(number)))
        served = engine.drain(core)
        for number in batch:
            output = served.ids(number)
            assert len(output) == OUTPUT_TOKENS
            for at, token in enumerate(output):
                counts.setdefault((*prompt, *output[:at]), Counter())[token] += 1
            for one in served.ends[number].ledger.drafts:
                accepted += one.accepted_tokens
                rejected += one.rejected_tokens
    core.close()
    assert min(accepted, rejected) >= draws // 10

    def expected(**changed: Any) -> Any:
        return lambda context: distribution(context, letter_ids, len(prompt), {**how, **changed})

    assert deviation(counts, expected()) < 4.0
    warmer = how["temperature"] * (1.8 if draws < 10_000 else 1.1)
    assert deviation(counts, expected(temperature=warmer)) > 4.0

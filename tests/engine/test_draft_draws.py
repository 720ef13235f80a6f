"""Drafts drawn at once: each row draws what a step of its own draws at that place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from tests.engine.mixed_requests import FREE, STEM

SPECS = {
    "free": None,
    "json": ConstraintSpec(
        "json", '{"type":"array","items":{"type":"integer"},"minItems":6,"maxItems":12}'
    ),
    "regex": ConstraintSpec("regex", "[a-f]{20}[g-k]{8}"),
}


class CountedDraws:
    """Rows of each call of a kernel set's sampler."""

    def __init__(self, kernels: Any) -> None:
        self._sample = kernels.sample
        self.name = kernels.name
        self.rows: list[int] = []

    def sample(self, logits: Any, *columns: Any) -> None:
        self.rows.append(logits.shape[0])
        self._sample(logits, *columns)


def counted(machine: type, calls: list[CountedDraws]) -> type:
    class Counted(machine):
        def __init__(self, *args):
            super().__init__(*args)
            self.model.kernels = CountedDraws(self.model.kernels)
            calls.append(self.model.kernels)

    return Counted


def play(core, engine, requests):
    """Each request twice, all at once: the second time the first outputs are drafted."""
    for number in (0, 100):
        for at, how in enumerate(requests):
            prompt = [*STEM[: 20 + at], at]
            core.submit(engine.request(number + at, prompt, seed=at, max_tokens=32, **how))
        served = engine.drain(core)
    return served


@FREE
@given(
    requests=st.lists(
        st.fixed_dictionaries(
            {
                "constraint": st.sampled_from(list(SPECS.values())),
                "on_limit": st.sampled_from(["raise", "close"]),
                "temperature": st.sampled_from([0.0, 0.8, 1.3]),
                "top_k": st.sampled_from([0, 5, 40]),
                "top_p": st.sampled_from([1.0, 0.9]),
                "min_p": st.sampled_from([0.0, 0.05]),
                "repetition_penalty": st.sampled_from([1.0, 1.3]),
                "presence_penalty": st.sampled_from([0.0, 0.4]),
                "frequency_penalty": st.sampled_from([0.0, 0.5]),
                "logprobs": st.sampled_from([0, 2]),
            }
        ),
        min_size=1,
        max_size=4,
    ),
    tokens=st.sampled_from([1, 4, 9]),
)
def test_rows_of_drafts_draw_what_single_rows_draw(requests, tokens, tokenizer_dir, engine):
    """Temperature, top-k, top-p, min-p, penalties and masks: equal tokens and log-probabilities."""
    plain = engine.hash_core(tokenizer_dir, eos_bias=-3.0)
    core = engine.hash_core(tokenizer_dir, eos_bias=-3.0, speculate_tokens=tokens)
    expected, found = play(plain, engine, requests), play(core, engine, requests)
    for at in range(len(requests)):
        assert found.ids(100 + at) == expected.ids(100 + at)
        assert found.logprobs(100 + at) == expected.logprobs(100 + at)
        assert found.text(100 + at) == expected.text(100 + at)
    plain.close()
    core.close()


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_step_draws_all_drafts_in_one_call(name, temperature, tokenizer_dir, engine):
    """One call of the sampler a step, however many sequences and draft tokens it has."""
    calls: list[CountedDraws] = []
    machine = counted(engine.hash_machine, calls)
    core = engine.hash_core(tokenizer_dir, eos_bias=-9.0, speculate_tokens=7, runner=machine)
    how = {"constraint": SPECS[name], "temperature": temperature, "presence_penalty": 0.2}
    for number in (0, 100):
        calls[0].rows.clear()
        forwards = core.decode_forwards
        for at in range(3):
            prompt = [*STEM[: 20 + at], at]
            core.submit(engine.request(number + at, prompt, seed=at, max_tokens=24, **how))
        served = engine.drain(core)
    steps = [done for done in served.steps if done.step]
    accepted = sum(
        one.accepted_tokens
        for end in served.ends.values()
        for one in end.ledger.drafts
        if one.source == "site"
    )
    assert accepted >= 20
    assert len(calls[0].rows) <= len(steps)
    assert len(calls[0].rows) <= core.decode_forwards - forwards + 3
    assert max(calls[0].rows) > 3
    core.close()


def test_a_budget_that_narrows_draws_one_at_a_time(tokenizer_dir, engine):
    """Near its limit an output that closes has masks of its own; its rows wait for their turn."""
    calls: list[CountedDraws] = []
    machine = counted(engine.hash_machine, calls)
    how = {"constraint": SPECS["json"], "on_limit": "close", "max_tokens": 16, "temperature": 0.8}
    told = []
    for tokens in ("off", 7):
        core = engine.hash_core(
            tokenizer_dir, eos_bias=-9.0, speculate_tokens=tokens, runner=machine
        )
        for number in range(2):
            core.submit(engine.request(number, STEM, seed=4, **how))
            told.append(engine.drain(core).text(number))
        core.close()
    assert told == told[:1] * 4

"""What nobody waits for is computed beside other work, and never makes it wait."""

import pytest

from agentrt.base.ids import RequestId
from agentrt.engine.scheduling.token_budget import BACKGROUND_TOKENS
from agentrt.protocol.backend import HoleFill, SchedulingInfo

LONG = 600


def prompt(number, tokens=LONG):
    return [(number * 37 + 5 * at) % 250 for at in range(tokens)]


def core_of(engine, folder, **settings):
    return engine.hash_core(folder, kv_pages=1024, eos_bias=-9.0, **settings)


def steps_beside(core, engine, wanted, most_steps=400):
    """Prefilled tokens of each step in which a request that is waited for took part."""
    served = engine.Served()
    found = []
    for _ in range(most_steps):
        if not core.has_work():
            break
        done = core.step()
        core.clock.advance(0.001)
        if done is None:
            continue
        served.see(done)
        if done.step is not None and RequestId(wanted) in done.step.requests:
            found.append(done.step.prefill_tokens)
    return served, found


@pytest.mark.parametrize("complete", [True, False])
def test_beside_others_it_gets_what_a_step_has_left(complete, tokenizer_dir, engine):
    """Prompts with and without holes; all of them together and not each."""
    core = core_of(engine, tokenizer_dir)
    core.submit(engine.request(1, prompt(1, 20), max_tokens=40))
    core.step()
    for number in range(2, 6):
        core.submit(engine.request(number, prompt(number), demanded=False, complete=complete))
    served, beside = steps_beside(core, engine, 1)
    assert len(served.ids(1)) == 39, "and one before"
    assert max(beside) <= BACKGROUND_TOKENS
    assert sum(beside) >= 4 * (LONG - 16), "and it was computed, all of it"


def test_where_nobody_waits_it_has_the_whole_step(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    for number in range(2, 4):
        core.submit(engine.request(number, prompt(number), demanded=False, max_tokens=4))
    served, beside = steps_beside(core, engine, 2)
    assert max(beside) > BACKGROUND_TOKENS
    assert len(served.ends) == 2


def test_once_somebody_waits_it_is_not_held_back(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(engine.request(1, prompt(1, 20), max_tokens=60))
    core.submit(engine.request(2, prompt(2), demanded=False, max_tokens=4))
    for _ in range(2):
        core.step()
    core.update((SchedulingInfo(RequestId(2), demanded=True),))
    _, beside = steps_beside(core, engine, 2)
    assert max(beside) > BACKGROUND_TOKENS


def test_who_waits_for_a_prefix_that_nobody_else_waits_for(tokenizer_dir, engine):
    """The owner of the prefix works at the pace of whoever waits for it."""
    core = core_of(engine, tokenizer_dir)
    core.submit(engine.request(1, prompt(1, 20), max_tokens=60))
    core.step()
    core.submit(engine.request(2, prompt(2), demanded=False, max_tokens=4))
    core.step()
    core.submit(engine.request(3, [*prompt(2), 7, 8, 9], max_tokens=4))
    served, _ = steps_beside(core, engine, 1)
    prefilled = [done.step.prefill_tokens for done in served.steps if done.step is not None]
    assert prefilled[0] > BACKGROUND_TOKENS
    assert served.ends[3].ledger.cached_tokens >= LONG - 16


def test_a_hole_that_is_filled_finds_its_prompt_computed(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(engine.request(1, prompt(1, 20), max_tokens=30))
    core.submit(engine.request(2, prompt(2), demanded=True, complete=False, max_tokens=4))
    engine.drain(core)
    core.fill_hole(RequestId(2), HoleFill((1, 2, 3), complete=True))
    served = engine.drain(core)
    assert sum(done.step.prefill_tokens for done in served.steps if done.step) <= 3 + 16

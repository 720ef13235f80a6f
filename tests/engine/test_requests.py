"""The life of requests: refused, filled, cancelled, ended."""

import pytest
import torch

from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill, MessagePrompt, SchedulingInfo

PROMPT = [(3 * at) % 250 for at in range(100)]


def test_cancelling_keeps_what_was_computed(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, max_tokens=50))
    served = engine.drain(core, most_steps=5)
    core.cancel(1, "no longer needed")
    assert core.has_work()
    end = engine.drain(core, served).ends[1]
    assert end.reason == "cancelled"
    assert end.ledger.output_tokens == len(served.ids(1)) == 5
    assert core.allocator.pool.owned_pages == 0
    core.submit(engine.request(2, PROMPT, max_tokens=1))
    assert engine.drain(core).ends[2].ledger.cached_tokens == 99


@pytest.mark.parametrize("state", ["waiting", "held", "over", "unknown"])
def test_cancelling_is_possible_at_any_time(state, build, engine):
    core = build(max_running=1)
    core.submit(engine.request(1, PROMPT, max_tokens=3))
    core.submit(engine.request(2, PROMPT[:50], complete=state != "held", max_tokens=3))
    if state == "over":
        engine.drain(core)
    core.cancel(99 if state == "unknown" else 2, "test")
    served = engine.drain(core)
    if state in ("waiting", "held"):
        assert served.ends[2].reason == "cancelled"
    assert not core.has_work()


def test_an_incomplete_prompt_is_computed_and_holds_nothing(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT[:70], complete=False, max_tokens=4))
    served = engine.drain(core)
    assert served.ends == {}
    pool = core.allocator.pool
    assert (pool.owned_pages, pool.tree_pages) == (0, 4)
    assert core.allocator.tree.evictable_pages == 4
    core.fill_hole(1, HoleFill(tuple(PROMPT[70:90]), complete=False))
    engine.drain(core, served)
    assert pool.tree_pages == 5
    core.fill_hole(1, HoleFill(tuple(PROMPT[90:]), complete=True))
    engine.drain(core, served)
    ledger = served.ends[1].ledger
    assert ledger.prompt_tokens == 100
    assert ledger.cached_tokens == 0
    core.submit(engine.request(2, PROMPT, max_tokens=4))
    assert engine.drain(core).ids(2) == served.ids(1)


def test_evicted_while_it_waits_it_is_computed_again(build, engine):
    core = build(kv_pages=8)
    core.submit(engine.request(1, PROMPT[:70], complete=False, max_tokens=4))
    served = engine.drain(core)
    core.submit(engine.request(2, PROMPT[::-1], max_tokens=4))
    engine.drain(core, served)
    core.fill_hole(1, HoleFill(tuple(PROMPT[70:]), complete=True))
    engine.drain(core, served)
    assert served.ends[1].reason == "length"
    assert served.ends[1].ledger.recomputed_tokens > 0


def test_filling_twice_is_refused(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, max_tokens=4))
    core.fill_hole(1, HoleFill((1,), complete=True))
    core.fill_hole(77, HoleFill((1,), complete=True))
    end = engine.drain(core).ends[1]
    assert "filled after it was complete" in end.error.message


@pytest.mark.parametrize(
    ("prompt", "error", "says"),
    [
        ([], "RequestRejected", "empty"),
        ([1, 9999], "RequestRejected", "token id 9999"),
        ([-4], "RequestRejected", "token id -4"),
        ([1] * 2304, "ContextOverflow", "2304 tokens and one more do not fit the window of 2304"),
    ],
)
def test_bad_prompts_are_refused_with_a_reason(prompt, error, says, build, engine):
    core = build()
    core.submit(engine.request(1, prompt))
    end = engine.drain(core).ends[1]
    assert (end.reason, end.error.type) == ("failed", error)
    assert says in end.error.message
    assert end.error.hint


@pytest.mark.parametrize("at_once", [True, False])
def test_an_incomplete_prompt_that_is_too_long_already_is_refused(at_once, build, engine):
    core = build(kv_pages=300)
    long = [at % 250 for at in range(2304)]
    core.submit(engine.request(1, long if at_once else long[:50], complete=False))
    served = engine.drain(core, most_steps=3)
    if not at_once:
        core.fill_hole(RequestId(1), HoleFill(tuple(long[50:]), complete=False))
        engine.drain(core, served)
    assert served.ends[1].error.type == "ContextOverflow"
    assert core.allocator.pool.owned_pages == 0


def test_messages_are_refused(build, engine):
    core = build()
    asked = engine.request(1, [1])
    core.submit(engine.replace(asked, prompt=MessagePrompt(())))
    assert engine.drain(core).ends[1].error.type == "Unsupported"


def test_the_window_ends_an_output(build, engine):
    core = build(kv_pages=300)
    core.submit(engine.request(1, [at % 250 for at in range(2300)], max_tokens=50))
    served = engine.drain(core)
    assert served.ends[1].reason == "length"
    assert len(served.ids(1)) == 4


def test_demanded_requests_go_first(build, engine):
    core = build(max_running=1)
    core.submit(engine.request(1, PROMPT[:20], max_tokens=2, demanded=False))
    core.submit(engine.request(2, PROMPT[20:40], max_tokens=2, demanded=False))
    core.submit(engine.request(3, PROMPT[40:60], max_tokens=2))
    core.update((SchedulingInfo(RequestId(2), demanded=True),))
    served = engine.drain(core)
    assert list(served.ends) == [2, 3, 1]


def test_holes_wait_behind_prompts_that_are_whole(build, engine):
    core = build(max_running=1)
    core.submit(engine.request(1, PROMPT[:50], complete=False, max_tokens=2))
    core.submit(engine.request(2, PROMPT[50:], max_tokens=2))
    served = engine.drain(core)
    assert served.steps[0].step.requests == (2,)
    assert any(done.step and done.step.requests == (1,) for done in served.steps)


def test_ids_that_no_token_has_are_never_picked(model_dir, engine, tmp_path):
    engine.save_model("llama", tmp_path, vocab_size=engine.VOCABULARY + 500)
    core = engine.core(tmp_path)
    for seed in range(3):
        core.submit(engine.request(seed, PROMPT[:9], max_tokens=30, temperature=5.0, seed=seed))
    served = engine.drain(core)
    assert max(token for seed in range(3) for token in served.ids(seed)) < engine.VOCABULARY
    core.close()


@pytest.mark.parametrize("overlap", ["on", "off"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_end_their_request_alone(
    overlap, temperature, tokenizer_dir, engine
):
    """With log-probabilities, and with the next step launched on what was drawn."""
    outs = []
    for broken in (False, True):
        core = engine.hash_core(tokenizer_dir, eos_bias=-9.0, overlap=overlap)
        plain = core.executor.runner.forward

        def forward(parts, plain=plain, broken=broken):
            logits = plain(parts)
            if broken and len(parts) == 2 and parts[0].first_position == 8:
                logits[0] = torch.nan
            return logits

        core.executor.runner.forward = forward
        for number in range(2):
            how = {"max_tokens": 9, "logprobs": 2, "temperature": temperature}
            core.submit(engine.request(number, [number, 3, 5, 7], **how))
        served = engine.drain(core)
        outs.append([served.ids(number) for number in range(2)])
    assert (served.ends[0].reason, served.ends[1].reason) == ("failed", "length")
    assert "not numbers" in served.ends[0].error.message
    assert outs[1] == [outs[0][0][:5], outs[0][1]]

"""Launching a step before the last one's tokens are known changes no token."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill

STEM = [(13 * at) % 249 for at in range(60)]
SPECS = (
    None,
    None,
    None,
    ConstraintSpec("regex", "[ab]{3,9}c*"),
    ConstraintSpec("json", '{"type":"array","items":{"type":"boolean"},"maxItems":4}'),
)
prompt = st.tuples(st.integers(0, 60), st.lists(st.integers(0, 250), max_size=5)).map(
    lambda parts: [*STEM[: parts[0]], *parts[1], 7]
)
request = st.fixed_dictionaries(
    {
        "at": st.integers(0, 30),
        "prompt": prompt,
        "constraint": st.sampled_from(SPECS),
        "on_limit": st.sampled_from(["raise", "close"]),
        "max_tokens": st.integers(1, 25),
        "temperature": st.sampled_from([0.0, 1.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3]),
        "stop": st.sampled_from([(), (), ("a",), ("bb", "c")]),
        "hole": st.booleans(),
        "cancel": st.sampled_from([None, None, None, 2, 9]),
    }
)


def serve(core, engine, requests):
    """Submit each at its step, fill holes and cancel some steps later."""
    served = engine.Served()
    for step in range(45):
        for number, one in enumerate(requests):
            how = {key: one[key] for key in one if key not in ("at", "prompt", "hole", "cancel")}
            half = len(one["prompt"]) // 2 if one["hole"] else len(one["prompt"])
            if step == one["at"]:
                known = one["prompt"][:half]
                core.submit(engine.request(number, known, complete=not one["hole"], seed=3, **how))
            if one["hole"] and step == one["at"] + 3:
                core.fill_hole(
                    RequestId(number), HoleFill(tuple(one["prompt"][half:]), complete=True)
                )
            if one["cancel"] is not None and step == one["at"] + one["cancel"]:
                core.cancel(RequestId(number), "test")
        engine.drain(core, served, most_steps=1)
    return engine.drain(core, served)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    requests=st.lists(request, min_size=1, max_size=6),
    kv_pages=st.sampled_from([10, 16, 80]),
    chunk=st.sampled_from([5, 64]),
    slots=st.sampled_from([2, 8]),
)
def test_tokens_are_those_of_the_plain_loop(
    requests, kv_pages, chunk, slots, tokenizer_dir, engine
):
    told = []
    for overlap in ("off", "on"):
        core = engine.hash_core(
            tokenizer_dir,
            eos_bias=1.5,
            overlap=overlap,
            kv_pages=kv_pages,
            page_tokens=8,
            prefill_chunk_tokens=chunk,
            step_tokens=48,
            max_running=slots,
        )
        told.append((core, serve(core, engine, requests)))
        core.close()
        assert not core.has_work()
        assert core.allocator.pool.owned_pages == 0
        assert core.allocator.tree.evictable_pages == core.allocator.pool.tree_pages
        assert core.allocator.free_slots == slots
    (_, plain), (_, overlapped) = told
    assert plain.ends.keys() == overlapped.ends.keys()
    for number, end in plain.ends.items():
        other = overlapped.ends[number]
        if "cancelled" in (end.reason, other.reason):  # somewhere on the way
            short, long = sorted((plain.ids(number), overlapped.ids(number)), key=len)
            assert long[: len(short)] == short
            continue
        assert overlapped.ids(number) == plain.ids(number)
        assert overlapped.text(number) == plain.text(number)
        assert (other.reason, other.closed_early, other.stopped_by) == (
            end.reason,
            end.closed_early,
            end.stopped_by,
        )
        assert other.ledger.output_tokens == len(overlapped.ids(number))


def test_a_step_is_launched_before_the_last_token_is_known(tokenizer_dir, engine):
    core = engine.hash_core(tokenizer_dir, overlap="on", eos_bias=-99.0)
    core.submit(engine.request(1, STEM, max_tokens=20))
    served = engine.drain(core)
    assert len(served.ids(1)) == 20
    assert core.executor.runner.named_by_slot == 19
    assert core.forwards == 20, "the last token is known to be the last: no forward is wasted"


def test_an_end_is_noticed_one_forward_late_and_nobody_is_told(tokenizer_dir, engine):
    plain, late = (
        engine.hash_core(tokenizer_dir, overlap=overlap, eos_bias=2.0) for overlap in ("off", "on")
    )
    for core in (plain, late):
        core.submit(engine.request(1, STEM, max_tokens=200))
    served, served_late = engine.drain(plain), engine.drain(late)
    assert served.ends[1].reason == served_late.ends[1].reason == "stop"
    assert served.ids(1) == served_late.ids(1)
    assert late.forwards == plain.forwards + 1
    assert served.ends[1].ledger.steps == served_late.ends[1].ledger.steps
    assert late.allocator.pool.owned_pages == 0


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_real_model_says_the_same(kind, build, engine):
    answers = []
    for overlap in ("off", "on"):
        core = build(kind, overlap=overlap, kv_pages=24)
        for number in range(4):
            core.submit(engine.request(number, STEM[number:], max_tokens=30, temperature=0.7))
        served = engine.drain(core)
        answers.append([served.ids(number) for number in range(4)])
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("overlap", "is_kept"), [("off", False), ("on", True)])
def test_what_a_slot_drew_is_kept_for_a_step_launched_ahead_only(
    tokenizer_dir, engine, overlap, is_kept
):
    kept = []

    class Counting(engine.hash_machine):  # type: ignore[name-defined]
        def remember_tokens(self, slots, token_ids):
            kept.append(slots)
            super().remember_tokens(slots, token_ids)

    core = engine.hash_core(tokenizer_dir, overlap=overlap, eos_bias=-99.0, runner=Counting)
    core.submit(engine.request(1, STEM, max_tokens=4))
    engine.drain(core, most_steps=2)
    assert bool(kept) == is_kept
    core.close()

"""Drafts under what happens meanwhile: forks of unfinished outputs, aborts, preemption, reloads.

A hash stands in for the model, so that KV of a rejected draft that reaches anybody changes tokens.
"""

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.engine.sequence.sequence import Sequence
from tests.engine.mixed_requests import FREE, SMALL_STEPS, STEM, holds_nothing

NUMBERS = ConstraintSpec("json", '{"type":"array","items":{"type":"integer"},"maxItems":9}')

asked = st.fixed_dictionaries(
    {
        "constraint": st.sampled_from([None, None, NUMBERS]),
        "on_limit": st.sampled_from(["raise", "close"]),
        "max_tokens": st.integers(1, 40),
        "temperature": st.sampled_from([0.0, 0.8]),
        "seed": st.integers(0, 2),
        "stop": st.sampled_from([(), (), ("a",), ("bb", "c")]),
        "ignore_eos": st.booleans(),
        "thinking": st.sampled_from([None, None, 0, 9]),
    }
)
act = st.one_of(
    st.tuples(st.just("submit"), st.integers(20, 60), asked),
    st.tuples(st.just("fork"), st.integers(0, 9), asked),
    st.tuples(st.just("cancel"), st.integers(0, 9), st.none()),
)
acts = st.lists(st.tuples(st.integers(0, 4), st.booleans(), act), min_size=2, max_size=14)
"""Steps before each act, whether it comes while a step is computed, and the act."""


class Play:
    """Acts on an engine, and the requests that came of them."""

    def __init__(self, core: Any, engine: Any) -> None:
        self.core, self.engine = core, engine
        self.served = engine.Served()
        self.requests: list[Any] = []

    def perform(self, act: tuple[str, int, Any]) -> None:
        name, number, how = act
        if name == "submit":
            self.submit([*STEM[:number], 7], how)
        elif self.requests:
            number %= len(self.requests)
            if name == "cancel":
                self.core.cancel(RequestId(number), "test")
            else:  # an output so far, and a turn behind it
                prompt = self.requests[number].prompt.token_ids
                self.submit([*prompt, *self.served.ids(number), 11], how)

    def submit(self, prompt: list[int], how: dict[str, Any]) -> None:
        how = dict(how)
        thinking = how.pop("thinking")
        if how["stop"] or how["ignore_eos"]:
            how["constraint"] = None
        request = self.engine.request(len(self.requests), prompt, keep_special=True, **how)
        self.requests.append(self.engine.replace(request, thinking_tokens=thinking))
        self.core.submit(self.requests[-1])

    def step(self, act: tuple[str, int, Any] | None = None) -> None:
        """A step; the act comes while it is computed."""
        step = self.core.begin_step()
        if act is not None:
            self.perform(act)
        done = self.core.end_step(step) if step is not None else [self.core.take_ends()]
        self.core.clock.advance(0.001)
        for one in done:
            if one is not None:
                self.served.see(one)


def check(play: Play, plain: Any, engine: Any) -> None:
    """Each request gave what it gives alone, or a beginning of that."""
    for number, request in enumerate(play.requests):
        plain.submit(engine.replace(request, request_id=RequestId(1000 + number)))
        alone = engine.drain(plain)
        ids, expected = play.served.ids(number), alone.ids(1000 + number)
        end, other = play.served.ends[number], alone.ends[1000 + number]
        if end.reason == "cancelled":
            assert ids == expected[: len(ids)]
            continue
        assert ids == expected
        assert play.served.text(number) == alone.text(1000 + number)
        assert (end.reason, end.stopped_by) == (other.reason, other.stopped_by)
        assert end.closed_early == other.closed_early


@settings(FREE, max_examples=30)
@given(
    acts=acts,
    tokens=st.sampled_from([1, 4, 16, "auto"]),
    way=st.sampled_from(["apart", "off", "on"]),
    kv_pages=st.sampled_from([24, 200]),
    host_pages=st.sampled_from([0, 40]),
    model=st.booleans(),
)
def test_what_happens_meanwhile_changes_no_token(
    acts, tokens, way, kv_pages, host_pages, model, tokenizer_dir, engine
):
    """Steps that are begun and ended apart, and whole ones with and without overlap."""
    how = {**SMALL_STEPS, "eos_bias": -2.0, "max_running": 4, "kv_pages": kv_pages}
    core = engine.hash_core(
        tokenizer_dir,
        speculate_tokens=tokens,
        overlap="on" if way == "on" else "off",
        host_kv_bytes=host_pages * 8 * 2 * 4,
        draft_runner=engine.hash_machine if model else None,
        **how,
    )
    play = Play(core, engine)
    for steps, is_meanwhile, one in acts:
        for _ in range(steps):
            if way == "apart":
                play.step()
            else:
                engine.drain(core, play.served, most_steps=1)
        if is_meanwhile and way == "apart":
            play.step(one)
        else:
            play.perform(one)
    engine.drain(core, play.served)
    holds_nothing(core)
    core.close()
    plain = engine.hash_core(tokenizer_dir, **how)
    check(play, plain, engine)
    plain.close()


def drafting_core(tokenizer_dir, engine, **how):
    """An engine, and an output that its later ones of the same call site are drafted from."""
    core = engine.hash_core(
        tokenizer_dir, speculate_tokens=7, eos_bias=-9.0, **{"page_tokens": 8, **how}
    )
    core.submit(engine.request(900, STEM, max_tokens=60))
    return core, engine.drain(core).ids(900)


def test_a_draft_that_is_aborted_in_flight_leaves_nothing(tokenizer_dir, engine):
    """Its tokens are told to nobody, and neither the sequence nor a page is kept for it."""
    core, _ = drafting_core(tokenizer_dir, engine)
    request = engine.replace(engine.request(0, STEM, max_tokens=60), node_id="aborted in flight")
    core.submit(request)
    served = engine.drain(core, most_steps=2)
    step = core.begin_step()
    assert step.scheduled.draft_rows > 0
    core.cancel(RequestId(0), "test")
    for done in core.end_step(step):
        served.see(done)
    end = served.ends[0]
    assert end.reason == "cancelled"
    assert end.ledger.output_tokens == len(served.ids(0))
    del step
    core.submit(engine.request(1, STEM, max_tokens=3))
    engine.drain(core)
    holds_nothing(core)
    gc.collect()
    kept = [one for one in gc.get_objects() if type(one) is Sequence and one.request == request]
    assert not kept
    core.close()


def test_a_fork_of_an_output_sees_no_rejected_token(tokenizer_dir, engine):
    """The page in which a draft was wrong is copied as far as it is right."""
    core, text = drafting_core(tokenizer_dir, engine)
    for number in range(1, 6):
        wrong = [*text[:12], *((token + 1) % 250 for token in text[12:])]
        earlier = engine.request(900 + number, STEM, max_tokens=62)
        core.submit(engine.replace(earlier, output_ids=tuple(wrong)))
    engine.drain(core)
    core.submit(engine.request(0, STEM, max_tokens=40))
    served = engine.Served()
    forks: dict[int, Any] = {}
    while core.has_work() and len(served.ids(0)) < 40:
        engine.drain(core, served, most_steps=1)
        if served.ids(0):
            number = len(forks) + 1
            forks[number] = engine.request(number, [*STEM, *served.ids(0), 11], max_tokens=5)
            core.submit(forks[number])
    engine.drain(core, served)
    (site,) = (one for one in served.ends[0].ledger.drafts if one.source == "site")
    assert site.accepted_tokens > 0
    assert site.rejected_tokens > 0
    assert served.ids(0) == text[:40]
    plain = engine.hash_core(tokenizer_dir, eos_bias=-9.0, share_prefixes=False)
    for number, fork in forks.items():
        plain.submit(fork)
        assert served.ids(number) == engine.drain(plain).ids(number)
        assert served.ends[number].ledger.cached_tokens >= len(STEM)
    core.close()
    plain.close()


@pytest.mark.parametrize("kv_pages", [24, 30, 36])
def test_a_draft_takes_no_page_that_its_batch_needs(kv_pages, tokenizer_dir, engine):
    """Behind a draft on a page of its own there is a page left for each sequence of the step."""
    core = engine.hash_core(
        tokenizer_dir, speculate_tokens=7, eos_bias=-9.0, page_tokens=4, kv_pages=kv_pages
    )
    served, on_own_pages = engine.Served(), 0
    for begin in (0, 100):  # the second time all is drafted, and all run at once
        for number in range(3):
            one = engine.request(begin + number, [*STEM[:20], number], max_tokens=40)
            core.submit(engine.replace(one, site=f"site {number}"))
            if not begin:
                engine.drain(core, served)
    while (step := core.begin_step()) is not None:
        batch, pages = step.scheduled.sequences, core.allocator.available_pages
        for one in step.scheduled.drafts:
            if len(one.pages) * 4 >= len(one.tokens) + 4:
                on_own_pages += 1
                assert pages >= len(batch)
        for done in core.end_step(step):
            served.see(done)
    assert on_own_pages
    for number in range(3):
        assert served.ids(100 + number) == served.ids(number)
    core.close()


def test_a_preempted_sequence_drafts_on_where_it_was(tokenizer_dir, engine):
    """The text of the call site is followed behind the output that it had."""
    plain = engine.hash_core(tokenizer_dir, eos_bias=-9.0, kv_pages=200, page_tokens=4)
    core = engine.hash_core(
        tokenizer_dir, eos_bias=-9.0, kv_pages=40, page_tokens=4, speculate_tokens=3
    )
    told = []
    for one in (plain, core):
        for begin in (0, 100):  # the second time all is drafted
            for number in range(3):
                request = engine.request(begin + number, [*STEM[:20], number], max_tokens=60)
                one.submit(engine.replace(request, site=f"site {number}"))
            served = engine.drain(one)
        told.append([served.ids(100 + number) for number in range(3)])
        holds_nothing(one)
        one.close()
    assert told[0] == told[1]
    ledgers = [served.ends[100 + number].ledger for number in range(3)]
    assert sum(one.preemptions for one in ledgers)
    drafts = [draft for one in ledgers for draft in one.drafts if draft.source == "site"]
    assert sum(one.accepted_tokens for one in drafts) >= 3 * 40
    assert sum(one.rejected_tokens for one in drafts) <= 3 * 3


@settings(FREE, max_examples=12)
@given(
    wrong=st.lists(st.integers(0, 59), max_size=6),
    stop_at=st.one_of(st.none(), st.integers(2, 50)),
    max_tokens=st.integers(1, 60),
    tokens=st.sampled_from([1, 7, 16]),
)
def test_an_output_that_ends_within_a_draft_is_accounted_for(
    wrong, stop_at, max_tokens, tokens, tokenizer_dir, engine
):
    """Each row of a draft is accepted or rejected, and each token was accepted or took a step."""
    plain = engine.hash_core(tokenizer_dir, eos_bias=-9.0)
    plain.submit(engine.request(0, STEM, max_tokens=60))
    alone = engine.drain(plain)
    text = alone.ids(0)
    stop = () if stop_at is None else (alone.text(0)[stop_at : stop_at + 2],)
    plain.submit(engine.request(1, STEM, max_tokens=max_tokens, stop=stop))
    expected = engine.drain(plain)
    core = engine.hash_core(tokenizer_dir, eos_bias=-9.0, speculate_tokens=tokens)
    earlier = engine.request(900, STEM, max_tokens=62)
    written = tuple((token + (at in wrong)) % 250 for at, token in enumerate(text))
    core.submit(engine.replace(earlier, output_ids=written))
    engine.drain(core)
    core.submit(engine.request(1, STEM, max_tokens=max_tokens, stop=stop))
    served = engine.drain(core)
    assert served.ids(1) == expected.ids(1)
    assert served.text(1) == expected.text(1)
    end, other = served.ends[1], expected.ends[1]
    assert (end.reason, end.stopped_by) == (other.reason, other.stopped_by)
    ledger = end.ledger
    assert ledger.output_tokens == other.ledger.output_tokens == len(served.ids(1)) <= max_tokens
    accepted = sum(one.accepted_tokens for one in ledger.drafts)
    rejected = sum(one.rejected_tokens for one in ledger.drafts)
    assert accepted + rejected == sum(done.step.extra_rows for done in served.steps if done.step)
    drawn = sum(done.step.decode_tokens for done in served.steps if done.step)
    last_is_drafted = ledger.output_tokens < accepted + drawn
    assert ledger.output_tokens == accepted + drawn - last_is_drafted
    plain.close()
    core.close()

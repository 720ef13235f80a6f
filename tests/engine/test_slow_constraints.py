"""What is slow or hostile about one constraint is the matter of its own request alone."""

from __future__ import annotations

import threading

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.engine.sampling import grammar_masks, sequence_output
from agentrt.engine.sequence import grammar_state
from agentrt.engine.sequence.mask_place import MaskPlace
from agentrt.engine.sequence.sequence import Sequence

PROMPT = [(3 * at) % 250 for at in range(40)]
NUMBERS = ConstraintSpec("json", '{"type":"array","items":{"type":"integer"},"maxItems":9}')
HOSTILE = {
    "deep": ConstraintSpec("json", '{"items":' * 5_000 + "true" + "}" * 5_000),
    "endless": ConstraintSpec("json", '{"$ref":"#"}'),
    "divisible": ConstraintSpec("json", '{"type":"integer","multipleOf":2999949}'),
    "repeats": ConstraintSpec("regex", "(a{1000}){1000}"),
    "million": ConstraintSpec("regex", "a{1000000}"),
    "behind": ConstraintSpec("regex", ".*a.{18}"),
    "nul": ConstraintSpec("regex", "a\x00b"),
    "ten megabytes": ConstraintSpec("json", '{"enum":["' + "x" * 10_000_000 + '"]}'),
    "no json": ConstraintSpec("json", "["),
}


class Held:
    """A state whose masks wait until they are let go."""

    def __init__(self, state, let_go):
        self._state = state
        self._let_go = let_go

    def fill_bitmask(self, row):
        assert self._let_go.wait(60)
        return self._state.fill_bitmask(row)


def hold_masks(monkeypatch, let_go, is_held):
    """Let the masks of some grammar states wait."""
    mask_state = vars(grammar_state.GrammarState)["mask_state"].fget

    def state_of(grammar):
        state = mask_state(grammar)
        return Held(state, let_go) if is_held(grammar) else state

    monkeypatch.setattr(grammar_state.GrammarState, "mask_state", property(state_of))


class Late:
    """A future that is late the first time it is waited for."""

    def __init__(self, future):
        self._future = future
        self.refused = 0

    def result(self, timeout=None):
        if timeout is not None and not self.refused:
            self.refused += 1
            raise TimeoutError
        return self._future.result(timeout)

    def __getattr__(self, name):
        return getattr(self._future, name)


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_a_late_mask_holds_up_its_own_row_only(build, engine, monkeypatch, overlap):
    """The held row skips every step until the other is through, then writes the same."""
    how = {"constraint": NUMBERS, "on_limit": "close", "max_tokens": 24, "temperature": 1.0}

    def serve(core):
        core.submit(engine.request(1, PROMPT, seed=5, **how))
        core.submit(engine.request(2, PROMPT[1:], max_tokens=12))
        return engine.drain(core)

    plain = serve(build(overlap=overlap))

    let_go = threading.Event()
    hold_masks(monkeypatch, let_go, lambda grammar: True)
    core = build(overlap=overlap)
    core.executor.sampler.mask_filler.row_budget_s = 0.0
    core.prewarm((NUMBERS,), wait_s=60.0)
    core.submit(engine.request(1, PROMPT, seed=5, **how))
    one_of(core).grammar.mask_place.is_apart = True
    core.submit(engine.request(2, PROMPT[1:], max_tokens=12))
    served = engine.drain(core, most_steps=60)
    let_go.set()
    assert set(served.ends) == {2}
    assert len(served.ids(1)) == 1  # the bracket, which needs no mask
    engine.drain(core, served)
    assert served.ids(2) == plain.ids(2)
    assert served.ids(1) == plain.ids(1)


def test_masks_of_requests_that_are_over_hold_up_no_others(build, engine, monkeypatch):
    """Both threads of late masks are busy for requests that are cancelled; a third one goes on."""
    how = {"constraint": NUMBERS, "on_limit": "close", "max_tokens": 24}
    let_go, held = threading.Event(), set()
    hold_masks(monkeypatch, let_go, lambda grammar: grammar in held)
    core = build()
    core.executor.sampler.mask_filler.row_budget_s = 0.0
    core.executor.sampler.mask_filler.limit_s = 600.0  # so late are no masks here
    core.prewarm((NUMBERS,), wait_s=60.0)
    for number in (1, 2):
        core.submit(engine.request(number, PROMPT[number:], **how))
    for sequence in core.scheduler:
        sequence.grammar.mask_place.is_apart = True
        held.add(sequence.grammar)
    for _ in range(4):
        core.step()
    detached = [sequence.grammar.mask_place.under_way for sequence in core.scheduler]
    assert len(detached) == 2
    assert all(one is not None and not one.masks.done() for one in detached)
    for number in (1, 2):
        core.cancel(number, "test")
    core.submit(engine.request(3, PROMPT, **how))
    for sequence in core.scheduler:
        sequence.grammar.mask_place = MaskPlace(stays_apart=True)
    served = engine.drain(core)
    assert served.ends[3].reason in ("stop", "length")
    assert not any(one.masks.done() and not one.masks.cancelled() for one in detached)
    let_go.set()


def test_a_way_out_waits_for_the_mask_under_way(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=NUMBERS, on_limit="close", max_tokens=24))
    sequence = one_of(core)
    while sequence.grammar is None:
        core.step()
    waited = []

    class Busy:
        def wait(self, timeout_s):
            waited.append(timeout_s)
            return True

    assert sequence.grammar is not None
    sequence.grammar.mask_place.under_way = Busy()
    sequence_output.close_output(sequence)
    assert waited
    assert sequence.grammar.mask_place.under_way is None


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_constraints_hurt_nobody_else(build, engine, name):
    core = build()
    core.submit(engine.request(1, PROMPT, max_tokens=8))
    alone = engine.drain(core).ids(1)
    core.submit(engine.request(2, PROMPT, constraint=HOSTILE[name], max_tokens=8))
    core.submit(engine.request(3, PROMPT, max_tokens=8))
    core.submit(engine.request(4, PROMPT, constraint=NUMBERS, on_limit="close", max_tokens=8))
    served = engine.drain(core)
    error = served.ends[2].error
    assert error is None or error.type == "ConstraintError", error
    assert (error is None) == (name == "behind")
    assert served.ids(3) == alone
    assert served.ends[4].error is None


def test_a_grammar_that_is_stuck_later_fails_alone(build, engine, monkeypatch):
    """The first masks are quick; behind four digits, one never comes."""
    spec = ConstraintSpec("grammar", 'start: HEAD "-" TAIL\nHEAD: /[0-9]{12}/\nTAIL: /[a-c]+/')
    let_go = threading.Event()
    stuck: list[Sequence] = []

    def is_held(grammar):
        return any(one.grammar is grammar and one.output_tokens >= 4 for one in stuck)

    hold_masks(monkeypatch, let_go, is_held)
    core = build()
    core.executor.sampler.mask_filler.limit_s = 0.2
    core.submit(engine.request(1, PROMPT, max_tokens=8))
    alone = engine.drain(core).ids(1)
    core.submit(engine.request(2, PROMPT, constraint=spec, max_tokens=400, temperature=1.0))
    stuck.append(one_of(core))
    core.submit(engine.request(3, PROMPT, max_tokens=8))
    core.submit(engine.request(4, PROMPT[1:], constraint=NUMBERS, on_limit="close", max_tokens=8))
    served = engine.drain(core)
    error = served.ends[2].error
    assert error is not None
    assert error.type == "ConstraintError"
    assert "a mask of the grammar takes longer than 0.2 s" in error.message
    assert served.ids(2)
    assert served.ids(3) == alone
    assert served.ends[4].error is None
    core.submit(engine.request(5, PROMPT, constraint=ConstraintSpec("grammar", TWO), max_tokens=40))
    assert engine.drain(core).ends[5].error is None, "the threads that are left go on"
    let_go.set()


@pytest.mark.parametrize("tail", ["/a{1,100000}/ /a{1,100000}/", '/a+/ "a"', "(/(?:01){2,}/){3,4}"])
def test_a_text_that_is_forced_without_end_costs_no_more(build, engine, tail):
    """Behind the digits one byte may follow at a time, for 100,000 bytes or forever."""
    spec = ConstraintSpec("grammar", f'start: HEAD "-" {tail} | "never"\nHEAD: /[0-9]{{12}}/')
    core = build()
    core.executor.sampler.mask_filler.limit_s = 60.0
    core.submit(engine.request(2, PROMPT, constraint=spec, max_tokens=40, temperature=1.0))
    served = engine.drain(core)
    assert served.ends[2].error is None
    assert len(served.ids(2)) == 40


TWO = 'start: WORD "," WORD\nWORD: /[a-c]{1,4}/'


def test_a_deadline_does_not_wait_for_a_grammar_that_is_stuck(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=NUMBERS, on_limit="close", max_tokens=24))
    sequence = one_of(core)
    while sequence.grammar is None:
        core.step()

    class Stuck:
        def wait(self, timeout_s):
            assert timeout_s < 1
            return False

    sequence.grammar.mask_place.under_way = Stuck()
    with pytest.raises(ConstraintError, match="cannot be closed"):
        sequence_output.close_output(sequence)


def test_what_was_told_ahead_is_compiled_when_it_is_asked_for(build, engine):
    core = build()
    core.prewarm((NUMBERS, HOSTILE["nul"]))
    cache = core.executor.grammars.cache
    cache.start_compile(NUMBERS, core.codec.vocab, core.codec.call_frame).result(60)
    compiled = cache.counts.compiled
    core.submit(engine.request(1, PROMPT, constraint=NUMBERS, on_limit="close", max_tokens=8))
    assert one_of(core).grammar is not None
    assert engine.drain(core).ends[1].error is None
    assert cache.counts.compiled == compiled == 2


@pytest.mark.parametrize(("each_s", "is_apart"), [((0.009, 0.0), False), ((0.001,), True)])
def test_masks_go_to_a_thread_where_most_are_slow(build, engine, monkeypatch, each_s, is_apart):
    """One that was slow, as the first of a grammar is, sends none of the next there."""
    told, finish = [], grammar_masks.GrammarMasks.__init__
    slow = iter([*each_s, *[each_s[-1]] * 99])

    def timed(masks, *args):
        finish(masks, *args)
        masks.filling_s = next(slow)

    monkeypatch.setattr(grammar_masks.GrammarMasks, "__init__", timed)
    core = build()
    filler = core.executor.sampler.mask_filler
    begin = filler.begin_masks

    def begun(rows):
        future = begin(rows)
        told.append(future is not None)
        return future

    filler.begin_masks = begun
    core.submit(engine.request(1, PROMPT, constraint=NUMBERS, on_limit="close", max_tokens=24))
    engine.drain(core)
    assert len(told) > 8
    assert told[-1] == is_apart
    assert any(told) == is_apart


def one_of(core):
    return next(iter(core.scheduler))


def test_masks_that_are_late_together_go_apart_and_come_back(build, engine):
    """Of rows filled in one call nobody knows which is slow: each skips, and is quick by itself."""
    how = {"constraint": NUMBERS, "on_limit": "close", "max_tokens": 24, "temperature": 1.0}

    def serve(core):
        for number in range(3):
            core.submit(engine.request(number, PROMPT[number:], seed=number, **how))
        return engine.drain(core)

    plain = serve(build())
    core = build()
    filler = core.executor.sampler.mask_filler
    begun: list[Late] = []
    begin = filler.begin_masks

    def late_once(rows):
        future = begin(rows)
        if future is not None and not begun:
            begun.append(Late(future))
            return begun[0]
        return future

    filler.thread_pays_s, filler.begin_masks = -1.0, late_once
    core.prewarm((NUMBERS,), wait_s=60.0)  # else the first step has no masks
    served = serve(core)
    assert begun
    assert begun[0].refused
    assert [served.ids(number) for number in range(3)] == [plain.ids(number) for number in range(3)]

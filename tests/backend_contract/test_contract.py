"""One suite for every backend: what the runtime may rely on, whoever serves.

The bench itself fails on what is never allowed: a second end, a delta after the end, an end
without its error, a request that does not end.
"""

from dataclasses import replace

import anyio
import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill, KvHint, PrefixHint, SchedulingInfo, TokenPrompt


def test_every_request_ends_once(bench, play):
    requests = [bench.request(f"number {n}", sampling={"max_tokens": 1 + n}) for n in range(9)]
    outcomes = play(*requests)
    assert {outcome.over.reason for outcome in outcomes} <= {"stop", "length"}
    assert {outcome.over.request_id for outcome in outcomes} == {
        request.request_id for request in requests
    }


def test_max_tokens_is_kept(bench, play):
    (outcome,) = play(bench.request(sampling={"max_tokens": 7, "seed": 3}))
    assert outcome.over.reason == "length"
    assert outcome.over.ledger.output_tokens == 7
    assert outcome.text
    if bench.codec is not None:
        assert len(outcome.token_ids) == 7


def test_text_is_the_text_of_the_ids(bench, play):
    if bench.codec is None:
        pytest.skip("it takes messages and gives no ids")
    (outcome,) = play(bench.request(sampling={"max_tokens": 40}))
    detokenizer = bench.codec.detokenizer(False)
    assert outcome.text == detokenizer.feed_ids(outcome.token_ids) + detokenizer.flush()


def test_equal_seeds_give_equal_texts(bench, play):
    if not bench.can.seeds:
        pytest.skip("it promises no seeds")
    same = [bench.request(sampling={"seed": 5, "max_tokens": 16}) for _ in range(2)]
    other = bench.request(sampling={"seed": 6, "max_tokens": 16})
    first, second, third = play(*same, other)
    assert first.text == second.text
    assert first.text != third.text


def test_stop_strings_end_the_output_before_them(bench, play):
    sampling = {"seed": 11, "max_tokens": 30}
    (free,) = play(bench.request(sampling=sampling))
    stop = free.text[6:9]
    at = free.text.index(stop)
    (outcome,) = play(bench.request(sampling=sampling | {"stop": (stop,)}))
    assert outcome.text == free.text[:at]
    assert outcome.over.reason == "stop"
    assert outcome.over.stopped_by == stop


def test_what_is_declared_is_enforced_and_nothing_else_is_taken(bench, play, case):
    requests = [
        bench.request(constraint=case.spec, sampling={"seed": seed, "max_tokens": 400})
        for seed in range(3)
    ]
    outcomes = play(*requests)
    if case.spec.kind in bench.can.checked:
        for outcome in outcomes:
            assert outcome.over.unmet is None or not outcome.text
            assert outcome.over.reason != "stop" or (
                outcome.over.unmet or case.holds(outcome.text, bench.backend)
            )
        return
    if case.spec.kind not in bench.can.constraints:
        assert {outcome.over.error.type for outcome in outcomes} == {"Unsupported"}
        assert all(outcome.over.error.hint for outcome in outcomes)
        return
    for outcome in outcomes:
        assert outcome.over.reason == "stop", outcome.over
        assert case.holds(outcome.text, bench.backend), outcome.text


def test_the_limit_closes_or_says_length(bench, play, case):
    """Whoever says `closes` gives a whole text under any limit that has room for one."""
    if case.spec.kind not in bench.can.constraints:
        pytest.skip(f"it does not enforce {case.spec.kind}")
    if not bench.can.closes:
        pytest.skip("it does not close")
    requests = [
        bench.request(
            constraint=case.spec, sampling={"seed": n, "max_tokens": 60 + 5 * n}, on_limit="close"
        )
        for n in range(4)
    ]
    for outcome in play(*requests):
        assert outcome.over.reason in ("stop", "length"), outcome.over
        assert outcome.over.reason == "stop" or outcome.over.closed_early
        assert case.holds(outcome.text, bench.backend), outcome.text


def test_a_constraint_that_cannot_compile_fails_its_request_only(bench, play):
    if "regex" not in bench.can.constraints | bench.can.checked:
        pytest.skip("it takes no regex")
    bad = ConstraintSpec("regex", "[unclosed")
    failed, good = play(bench.request(constraint=bad), bench.request())
    assert failed.over.error.type in ("ConstraintError", "RequestRejected")
    assert good.over.error is None


def test_a_prompt_that_is_too_long_is_an_overflow(bench, play):
    if not bench.can.window_tokens:
        pytest.skip("its window is not known")
    long, good = play(bench.request("word " * bench.can.window_tokens), bench.request())
    assert long.over.error.type == "ContextOverflow"
    assert long.over.error.hint
    assert good.over.error is None


def test_the_wrong_kind_of_prompt_is_refused(bench, play, make_bench, kind):
    other = make_bench("scripted-messages" if bench.codec is not None else "scripted")
    (outcome,) = play(bench.request(prompt=other.prompt("hi")))
    assert outcome.over.error.type == "Unsupported"


def test_logprobs_are_given_or_refused(bench, play):
    (outcome,) = play(bench.request(sampling={"logprobs": 2}))
    if bench.can.logprobs:
        assert outcome.over.error is None
    else:
        assert outcome.over.error.type == "Unsupported"


def test_cancelled_before_anything_happened(bench, play, portal):
    request = bench.request(sampling={"max_tokens": 500})

    def both():
        bench.backend.submit(request)
        bench.backend.cancel(request.request_id, "changed my mind")

    portal.call(both)
    (outcome,) = play(request, submit=False)
    assert outcome.over.reason in ("cancelled", "stop", "length")


def test_cancelled_in_the_middle(bench, play):
    long = bench.request(sampling={"max_tokens": 3000})
    beside = bench.request(sampling={"max_tokens": 20})

    def cancel(step):
        if any(delta.request_id == long.request_id for delta in step.deltas):
            bench.backend.cancel(long.request_id, "seen enough")

    cancelled, whole = play(long, beside, on_step=cancel)
    assert cancelled.over.reason == "cancelled"
    assert cancelled.over.ledger.output_tokens < 3000
    assert whole.over.reason in ("stop", "length")


def test_cancelling_and_filling_what_is_over_or_unknown_does_nothing(bench, play, portal):
    over = bench.request()
    play(over)

    def late():
        for number in (over.request_id, RequestId(10**9)):
            bench.backend.cancel(number, "too late")
            bench.backend.fill_hole(number, HoleFill((1,), complete=True))
            bench.backend.update((SchedulingInfo(number, demanded=False),))

    portal.call(late)
    (outcome,) = play(bench.request())
    assert outcome.over.error is None


def test_hints_are_never_needed(bench, play, portal):
    hints: tuple[KvHint, ...] = ("keep", "demote", "drop", "prefetch")
    for hint in hints:
        portal.call(bench.backend.hint, PrefixHint((1, 2, 3), hint))
    (outcome,) = play(bench.request())
    assert outcome.over.error is None


def test_salts_keep_prefixes_apart_or_are_refused(kind, bench, play):
    text = f"{kind}: a prefix of several pages, which another salt may not find. " * 3
    cached = []
    for salt in ("one", "one", "other", ""):
        request = bench.request(text, cache_salt=salt)
        (outcome,) = play(request)
        if salt and not bench.can.cache_salts:
            assert outcome.over.error.type == "Unsupported"
            continue
        assert outcome.over.error is None
        cached.append(outcome.over.ledger.cached_tokens)
    if not bench.can.cache_salts:
        return
    first, again, *others = cached
    assert (first, others[0]) == (0, 0)
    assert others[1] < 16, "the first tokens of the template at most"
    if bench.can.backend != "scripted":  # which keeps no KV
        assert again >= 16


def test_a_prompt_with_holes_equals_the_whole_prompt(bench, play, portal):
    if not bench.can.holes:
        pytest.skip("it takes no holes")
    whole = bench.request("one two three four five six seven", sampling={"seed": 2})
    ids = whole.prompt.token_ids
    assert len(ids) > 4
    parted = bench.request(
        prompt=TokenPrompt(ids[:2], complete=False), sampling={"seed": 2, "max_tokens": 12}
    )
    beside = bench.request(sampling={"max_tokens": 3})

    def begin():
        bench.backend.submit(parted)
        bench.backend.fill_hole(parted.request_id, HoleFill(ids[2:3], complete=False))

    portal.call(begin)
    play(beside)  # something else runs while the hole is open
    portal.call(bench.backend.fill_hole, parted.request_id, HoleFill(ids[3:], complete=True))
    (filled,) = play(parted, submit=False)
    (expected,) = play(whole)
    assert filled.text == expected.text
    assert filled.over.ledger.prompt_tokens == len(ids)


def test_a_request_with_a_hole_can_be_cancelled(bench, play, portal):
    if not bench.can.holes:
        pytest.skip("it takes no holes")
    request = bench.request(prompt=TokenPrompt((1, 2), complete=False))
    portal.call(bench.backend.submit, request)
    portal.call(bench.backend.cancel, request.request_id, "nobody wants it")
    (outcome,) = play(request, submit=False)
    assert outcome.over.reason == "cancelled"


def test_ledgers_sum_to_the_time_between_receipt_and_end(bench, play):
    requests = [
        bench.request(f"Tell me of {n} lamps.", sampling={"max_tokens": 10}) for n in range(4)
    ]
    for outcome in play(*requests):
        ledger = outcome.over.ledger
        parts = (
            ledger.queue_s,
            ledger.kv_reload_s,
            ledger.prefill_s,
            ledger.decode_s,
            ledger.constraint_s,
        )
        assert min(parts) >= 0
        whole_s = ledger.finished_at_s - ledger.received_at_s
        assert sum(parts) == pytest.approx(whole_s, rel=1e-6, abs=1e-6)
        instants = (
            ledger.received_at_s,
            ledger.completed_at_s,
            ledger.admitted_at_s,
            ledger.first_token_at_s,
            ledger.finished_at_s,
        )
        assert list(instants) == sorted(instants)
        assert ledger.prompt_tokens > 0
        assert 0 <= ledger.cached_tokens <= ledger.prompt_tokens


def test_steps_are_told_in_order_and_hold_their_requests(bench, play):
    play(*(bench.request(sampling={"max_tokens": 6}) for _ in range(3)))
    steps = [event.step for event in bench.steps if event.step is not None]
    if not steps:
        assert bench.can.backend == "remote"
        return
    assert [step.index for step in steps] == list(
        range(steps[0].index, steps[0].index + len(steps))
    )
    for event in bench.steps:
        if event.step is not None:
            assert {delta.request_id for delta in event.deltas} <= set(event.step.requests)
            assert event.step.started_at_s <= event.step.ended_at_s


def test_requests_share_steps(bench, play):
    play(*(bench.request(sampling={"max_tokens": 6}) for _ in range(4)))
    sizes = [len(event.step.requests) for event in bench.steps if event.step is not None]
    assert bench.can.backend == "remote" or max(sizes) == 4


def test_closing_ends_what_is_under_way_and_may_be_said_twice(kind, make_bench, portal):
    fresh = make_bench(kind)

    async def main():
        await fresh.backend.start()
        await fresh.backend.start()  # says nothing new
        request = fresh.request(sampling={"max_tokens": 3000})
        fresh.backend.submit(request)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fresh.backend.aclose)
            (outcome,) = await fresh.play(request, submit=False)
        await fresh.backend.aclose()
        rest = [event async for event in fresh.backend.events()]
        return outcome, rest

    outcome, rest = portal.call(main)
    assert outcome.over.reason == "cancelled"
    assert rest == []


def test_closing_before_starting_is_fine(kind, make_bench, portal):
    fresh = make_bench(kind)

    async def main():
        await fresh.backend.aclose()
        return [event async for event in fresh.backend.events()]

    assert portal.call(main) == []


def test_thought_is_framed_and_kept_short_or_refused(bench, play):
    frame = bench.can.thinking
    request = replace(
        bench.request(sampling={"max_tokens": 90, "seed": 3}), thinking_tokens=5, keep_special=True
    )
    (outcome,) = play(request)
    if frame is None:
        assert outcome.over.error.type == "Unsupported"
        assert outcome.over.error.hint
        return
    assert outcome.over.error is None
    head, marker, rest = outcome.text.partition(frame.marker)
    assert head.startswith("" if frame.opened else frame.opening)
    assert marker
    assert rest.startswith(frame.after)


def test_a_choice_is_scored_or_refused(bench, play):
    spec = ConstraintSpec("choice", options=("yes", "no", "yes, please"))
    asked = bench.request(constraint=spec, sampling={"temperature": 0.0})
    (outcome,) = play(replace(asked, scored=True))
    if not bench.can.scores:
        assert outcome.over.error.type == "Unsupported"
        assert outcome.over.error.hint
        return
    assert outcome.text in spec.options
    assert len(outcome.over.scores) == 3
    best = max(range(3), key=lambda at: outcome.over.scores[at].logprob)
    assert outcome.text == spec.options[best]

"""Too few pages: who gives way, who never fits, and that nobody's tokens change."""

PROMPT = [(5 * at) % 250 for at in range(120)]


def serve(core, engine, count, **sampling):
    for number in range(count):
        core.submit(engine.request(number, PROMPT[number : number + 30], max_tokens=40, **sampling))
    return engine.drain(core)


def test_preemption_changes_no_token(build, engine):
    roomy = serve(build(kv_pages=200), engine, 5, temperature=0.8, seed=3)
    tight_core = build(kv_pages=11)
    tight = serve(tight_core, engine, 5, temperature=0.8, seed=3)
    assert sum(end.ledger.preemptions for end in tight.ends.values()) > 0
    assert sum(end.ledger.recomputed_tokens for end in tight.ends.values()) > 0
    for number in range(5):
        assert tight.ids(number) == roomy.ids(number)
        assert tight.ends[number].reason == roomy.ends[number].reason
    assert tight_core.allocator.pool.owned_pages == 0


def test_what_can_never_fit_is_told_at_once(build, engine):
    core = build(kv_pages=4)
    core.submit(engine.request(1, PROMPT[:64], max_tokens=2))
    end = engine.drain(core).ends[1]
    assert end.reason == "failed"
    assert end.error.type == "OutOfPages"
    assert "needs 5 KV pages, the engine has 4" in end.error.message


def test_what_outgrows_the_memory_ends_and_the_others_go_on(build, engine):
    core = build(kv_pages=4)
    core.submit(engine.request(1, PROMPT[:40], max_tokens=100))
    core.submit(engine.request(2, PROMPT[60:70], max_tokens=5))
    served = engine.drain(core)
    assert served.ends[1].error.type == "OutOfPages"
    assert 20 <= len(served.ids(1)) <= 25
    assert served.ends[2].reason == "length"
    assert core.allocator.pool.owned_pages == 0


def test_the_preempted_goes_before_those_that_came_later(build, engine):
    core = build(kv_pages=9)
    served = serve(core, engine, 6)
    first = {n: served.ends[n].ledger.finished_at_s for n in range(6)}
    preempted = [n for n in range(6) if served.ends[n].ledger.preemptions]
    assert preempted
    assert max(first[n] for n in preempted) < first[5] or 5 in preempted


def test_slots_are_not_exceeded(build, engine):
    core = build(max_running=2)
    served = serve(core, engine, 5)
    assert max(len(done.step.requests) for done in served.steps if done.step) == 2
    assert len(served.ends) == 5


def test_the_budget_of_a_step_is_kept(build, engine):
    core = build(step_tokens=20, prefill_chunk_tokens=16)
    served = serve(core, engine, 3)
    for done in served.steps:
        assert done.step.prefill_tokens <= 20
    assert served.ends[0].ledger.prefill_chunks == 2

"""Searches for ends of outputs go on beside the steps: only their own row waits for them."""

from __future__ import annotations

import json
import threading

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.engine.sampling.grammar_threads import GrammarThreads
from agentrt.structured.closing.budget import MAX_VAIN_SEARCHES

PROMPT = [(3 * at) % 250 for at in range(40)]
NODE = ConstraintSpec("json", '{"type":"object","additionalProperties":{"type":"array"}}')
VAIN = ConstraintSpec("grammar", 'start: "x"{1,30} | "x"{0,20} /[a-w]/ "z"{200}')
SPECS = {"found": NODE, "in vain": VAIN}
LIMIT_S = 60.0


class HeldThreads(GrammarThreads):
    """Threads on which searches begin, and wait until they are let go."""

    def __init__(self):
        super().__init__(2, "held-searches")
        self.begun: list[int] = []
        self.waited: list[int] = []
        self.holds = True
        self.let_go = threading.Event()
        self._begins = threading.Semaphore(0)

    def submit(self, work):
        if not self.holds:
            return super().submit(work)

        def held():
            number = len(self.begun)
            self.begun.append(number)
            self._begins.release()
            self.let_go.wait(LIMIT_S)
            self.waited.append(number)
            return work()

        return super().submit(held)

    def await_begin(self):
        assert self._begins.acquire(timeout=LIMIT_S)


def constrained(engine, name, number=1):
    how = {"on_limit": "close", "max_tokens": 40, "temperature": 1.0, "seed": 5}
    return engine.request(number, PROMPT, constraint=SPECS[name], **how)


def set_budget(core, seconds):
    core.executor.sampler.mask_filler.row_budget_s = LIMIT_S  # no mask is late here
    core.executor.sampler.end_searches.step_budget_s = seconds


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("name", SPECS)
def test_a_search_under_way_holds_up_its_own_row_only(build, engine, overlap, name):
    """The row skips every step until the others are through, then writes the same tokens."""

    def serve(seconds, threads=None, most_steps=400):
        core = build(overlap=overlap)
        core.executor.sampler.end_searches.threads = threads
        set_budget(core, seconds)
        core.prewarm((SPECS[name],), wait_s=LIMIT_S)
        core.submit(constrained(engine, name))
        core.submit(engine.request(2, PROMPT[1:], max_tokens=60))
        return core, engine.drain(core, most_steps=most_steps)

    _, plain = serve(LIMIT_S)
    held = HeldThreads()
    core, served = serve(0.0, held, most_steps=70)
    held.await_begin()
    assert len(held.begun) == 1
    assert set(served.ends) == {2}
    assert served.ids(2) == plain.ids(2)
    held.let_go.set()
    set_budget(core, LIMIT_S)
    engine.drain(core, served)
    assert len(held.begun) > (MAX_VAIN_SEARCHES if name == "in vain" else 0)
    assert served.ids(1) == plain.ids(1)
    assert served.ends[1].error is None
    assert served.ends[1].reason == plain.ends[1].reason


def test_a_search_without_end_counts_as_one_in_vain(build, engine):
    """Its token is not written, and the output is closed as it would be behind any other."""
    core = build()
    set_budget(core, 0.0)
    core.executor.sampler.end_searches.limit_s = 0.0
    core.prewarm((NODE,), wait_s=LIMIT_S)
    held = core.executor.sampler.end_searches.threads = HeldThreads()
    core.submit(constrained(engine, "found"))
    served = engine.drain(core)
    assert held.begun
    assert not held.waited
    assert served.ends[1].error is None
    assert isinstance(json.loads(served.text(1)), dict)
    held.let_go.set()


def test_a_request_that_is_over_leaves_its_thread_to_others(build, engine):
    """Both threads search for requests that are cancelled; a third request finds its end."""
    core = build()
    set_budget(core, 0.0)
    core.prewarm((NODE,), wait_s=LIMIT_S)
    held = core.executor.sampler.end_searches.threads = HeldThreads()
    for number in (1, 2):
        core.submit(constrained(engine, "found", number))
    engine.drain(core, most_steps=20)
    held.await_begin()
    held.await_begin()
    for number in (1, 2):
        core.cancel(number, "test")
    held.holds = False
    core.submit(constrained(engine, "found", 3))
    set_budget(core, 0.1)
    assert engine.drain(core).ends[3].error is None
    assert not held.waited
    held.let_go.set()

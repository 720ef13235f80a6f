"""A line in which nobody can come in is not asked again each step, and nothing else changes."""

from random import Random

import pytest

from agentrt.base.ids import RequestId
from agentrt.engine.scheduling.admission import BatchAdmission, UnchangedQueue
from agentrt.protocol.backend import HoleFill


def requests(engine, seed, count=24):
    """Unlike lengths, some with a common start."""
    random = Random(seed)
    for number in range(count):
        start = [number % 3 + 1] * 32
        own = [random.randrange(5, 250) for _ in range(random.randrange(1, 40))]
        yield engine.request(number, start + own, max_tokens=random.randrange(2, 30))


def told(served):
    """Of each admission all but when it was."""
    return [
        (at, one.request_id, one.position, one.waiting, one.passed_over)
        for at, done in enumerate(served.steps)
        for one in done.admissions
    ]


@pytest.mark.parametrize("limit", [{"kv_pages": 14}, {"max_running": 3}])
@pytest.mark.parametrize("seed", range(3))
def test_who_comes_in_and_what_is_told_stays_the_same(seed, limit, build, engine, monkeypatch):
    asked: list[int] = []
    opened = BatchAdmission.begin_step

    def counted(self, waiting):
        asked.append(len(waiting))
        opened(self, waiting)

    monkeypatch.setattr(BatchAdmission, "begin_step", counted)
    found = []
    for passes in (UnchangedQueue.skip_step, lambda self, waiting: False):
        monkeypatch.setattr(UnchangedQueue, "skip_step", passes)
        asked.clear()
        core = build(policy="fcfs", **limit)
        for request in requests(engine, seed):
            core.submit(request)
        found.append((told(engine.drain(core)), len(asked)))
    (spared, few), (plain, many) = found
    assert spared == plain
    assert few < 0.7 * many


@pytest.mark.parametrize("policy", ["fcfs", "rwa", "lpm"])
def test_an_end_and_a_whole_prompt_let_one_in_at_once(policy, build, engine):
    """Two long outputs fill both places; what comes free is taken in the very next step."""
    core = build(policy=policy, max_running=2)
    for number in range(2):
        core.submit(engine.request(number, [number + 1] * 20, max_tokens=200))
    core.submit(engine.request(2, [3] * 20, max_tokens=200))
    core.submit(engine.request(3, [4] * 20, max_tokens=2, complete=False))
    for _ in range(5):
        core.step()
    core.cancel(RequestId(0), "not needed")
    assert [one.request_id for one in core.step().admissions] == [2]
    core.cancel(RequestId(1), "not needed")
    core.fill_hole(RequestId(3), HoleFill((3, 4), complete=True))
    assert [one.request_id for one in core.step().admissions] == [3]

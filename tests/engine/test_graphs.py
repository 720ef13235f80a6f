"""Captured steps: which tier, what padding may touch, and that tokens stay the same."""

import pytest
import torch

from agentrt.engine.graphs import tiers

PROMPT = [(3 * at) % 250 for at in range(300)]


class Replayed:
    """Stands where a CUDA graph does: runs again on the buffers it was recorded with."""

    def __init__(self, run):
        self.run, self.output = run, run().clone()
        self.replays = 0

    def replay(self):
        self.replays += 1
        self.output.copy_(self.run())


class Tape:
    def __init__(self):
        self.recorded = []

    def record(self, run):
        self.recorded.append(Replayed(run))
        return self.recorded[-1]


def test_tiers_grow_by_eights():
    assert tiers(1) == (1,)
    assert tiers(4) == (1, 2, 4)
    assert tiers(20) == (1, 2, 4, 8, 16, 20)
    assert tiers(64) == (1, 2, 4, *range(8, 65, 8))


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_replayed_steps_say_the_same(overlap, build, engine):
    told = []
    for captures in (False, True):
        core = build("llama", kernels="reference", overlap=overlap, kv_pages=90, max_running=6)
        if captures:
            core._machine.capture(Tape(), 6)
        for number in range(5):
            prompt = [*PROMPT[:270], number, 9] if number < 3 else PROMPT[number : number + 20]
            core.submit(engine.request(number, prompt, max_tokens=6 + number, temperature=0.5))
        served = engine.drain(core)
        told.append([served.ids(number) for number in range(5)])
        graphs = core._machine.graphs
        assert (graphs is not None and graphs.replays >= 8) is captures
    assert told[0] == told[1]


def test_padding_stores_nothing(build, engine):
    core = build("llama", kernels="reference", kv_pages=40, max_running=8)
    tape = Tape()
    core._machine.capture(tape, 8)
    assert len(tape.recorded) == 7  # 8, 4 and 2 with siblings and without, and 1
    for number in range(3):
        core.submit(engine.request(number, PROMPT[number : number + 20], max_tokens=9))
    engine.drain(core, most_steps=3)
    used = {page for one in core._roster for page in one.pages}
    rest = [page for page in range(40) if page not in used]
    before = core._machine.kv.memory[rest].clone()
    replays = core._machine.graphs.replays
    engine.drain(core, most_steps=2)
    assert core._machine.graphs.replays == replays + 2
    assert torch.equal(core._machine.kv.memory[rest], before)


def test_steps_with_prompts_are_not_replayed(build, engine):
    core = build("llama", kernels="reference", kv_pages=40, max_running=4)
    core._machine.capture(Tape(), 4)
    core.submit(engine.request(1, PROMPT[:20], max_tokens=3))
    engine.drain(core, most_steps=1)
    assert core._machine.graphs.replays == 0
    engine.drain(core, most_steps=1)
    assert core._machine.graphs.replays == 1
    core.submit(engine.request(2, PROMPT[50:70], max_tokens=3))
    engine.drain(core, most_steps=1)
    assert core._machine.graphs.replays == 1

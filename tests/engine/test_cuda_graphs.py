"""Captured steps: which tier, what padding may touch, and that tokens stay the same."""

import pytest
import torch

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.runner.cuda_graphs import GraphTier, batch_sizes, wide_tiers

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
    assert batch_sizes(1) == (1,)
    assert batch_sizes(4) == (1, 2, 4)
    assert batch_sizes(20) == (1, 2, 4, 8, 16, 20)
    assert batch_sizes(64) == (1, 2, 4, *range(8, 65, 8))


def test_wide_tiers_double_and_stay_small():
    assert wide_tiers(1, 4) == (GraphTier(1, 2), GraphTier(1, 4))
    assert GraphTier(6, 8) in wide_tiers(6, 512)
    assert max(tier.tokens for tier in wide_tiers(64, 512)) == 64
    assert GraphTier(32, 2) in wide_tiers(64, 512)


def test_a_tier_holds_what_its_padding_leaves_room_for():
    def parts(*counts):
        return [SequenceSlice(0, [0] * count, 0, wants_logits=True) for count in counts]

    assert GraphTier(4, 2).fits(parts(2, 2, 2), 6, 2)
    assert not GraphTier(4, 2).fits(parts(2, 2, 2, 2, 1), 9, 2)
    assert not GraphTier(4, 2).fits(parts(3, 1), 4, 3)
    assert not GraphTier(2, 2).fits(parts(4), 4, 4)


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("shared", [False, True])
def test_forced_runs_and_short_chunks_are_replayed_too(overlap, shared, build, engine):
    """Only what is longer than the widest tier is launched kernel by kernel."""
    told = []
    spec = ConstraintSpec("regex", "(?:[ab]xyz){2,6}(?:[cd]vw){3}")
    for captures in (False, True):
        core = build("llama", kernels="reference", overlap=overlap, kv_pages=120, max_running=6)
        if captures:
            core.executor.runner.capture_graphs(Tape(), 6)
        for number in range(5):
            stem = PROMPT[:272] if shared and number < 4 else PROMPT[number : number + 20]
            constraint = spec if number in (0, 4) else None
            core.submit(
                engine.request(
                    number,
                    [*stem, number, 9],
                    constraint=constraint,
                    max_tokens=30,
                    temperature=0.5,
                    seed=number,
                )
            )
        begun, eager = core.forwards, 0
        forward, graphs = core.executor.runner.forward, core.executor.runner.graphs

        def noted(parts, forward=forward):
            nonlocal eager
            eager += max(len(part.token_ids) for part in parts) > 8
            return forward(parts)

        core.executor.runner.forward = noted
        served = engine.drain(core)
        told.append([served.ids(number) for number in range(5)])
        if captures:
            assert core.forwards - begun - graphs.replays == eager
            used = [tier for (tier, _), (_, one) in graphs.captured.items() if one.replays]
            assert {1, 4} <= {tier.rows for tier in used}
            prefixed = [key for key, (_, one) in graphs.captured.items() if one.replays and key[1]]
            assert bool(prefixed) is shared
    assert told[0] == told[1]


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_replayed_steps_say_the_same(overlap, build, engine):
    told = []
    for captures in (False, True):
        core = build("llama", kernels="reference", overlap=overlap, kv_pages=90, max_running=6)
        if captures:
            core.executor.runner.capture_graphs(Tape(), 6)
        for number in range(5):
            prompt = [*PROMPT[:270], number, 9] if number < 3 else PROMPT[number : number + 20]
            core.submit(engine.request(number, prompt, max_tokens=6 + number, temperature=0.5))
        served = engine.drain(core)
        told.append([served.ids(number) for number in range(5)])
        graphs = core.executor.runner.graphs
        assert (graphs is not None and graphs.replays >= 8) is captures
    assert told[0] == told[1]


def test_padding_stores_nothing(build, engine):
    core = build("llama", kernels="reference", kv_pages=40, max_running=8)
    tape = Tape()
    core.executor.runner.capture_graphs(tape, 8)
    # 8, 4 and 2 with siblings and without, and 1; each for 1, 2, 4 and 8 rows a sequence
    assert len(tape.recorded) == 4 * 7
    for number in range(3):
        core.submit(engine.request(number, PROMPT[number : number + 20], max_tokens=9))
    engine.drain(core, most_steps=3)
    used = {page for one in core.scheduler for page in one.pages}
    rest = [page for page in range(40) if page not in used]
    before = core.executor.runner.kv.memory[rest].clone()
    replays = core.executor.runner.graphs.replays
    engine.drain(core, most_steps=2)
    assert core.executor.runner.graphs.replays == replays + 2
    assert torch.equal(core.executor.runner.kv.memory[rest], before)


def test_steps_with_prompts_are_not_replayed(build, engine):
    core = build("llama", kernels="reference", kv_pages=40, max_running=4)
    core.executor.runner.capture_graphs(Tape(), 4)
    core.submit(engine.request(1, PROMPT[:20], max_tokens=3))
    engine.drain(core, most_steps=1)
    assert core.executor.runner.graphs.replays == 0
    engine.drain(core, most_steps=1)
    assert core.executor.runner.graphs.replays == 1
    core.submit(engine.request(2, PROMPT[50:70], max_tokens=3))
    engine.drain(core, most_steps=1)
    assert core.executor.runner.graphs.replays == 1

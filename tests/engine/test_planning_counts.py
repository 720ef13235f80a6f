"""What planning may do a step: counted, since times depend on the machine."""

import sys

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from agentrt.base.constraint_spec import ConstraintSpec

PROMPT = [(3 * at) % 250 for at in range(90)]
MOST_CALLS_EACH = 4
MOST_CALLS = 40
MOST_TRIED = 4
MOST_DRAFTING_CALLS = 22


class Operations(TorchDispatchMode):
    """Counts what torch is asked to do."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def decoding(engine, folder, running):
    """An engine in which all decode, in the middle of their pages."""
    core = engine.hash_core(folder, eos_bias=-9.0, kv_pages=900, max_running=running)
    for number in range(running):
        core.submit(engine.request(number, [number, *PROMPT], max_tokens=50))
    while not core.decode_forwards or any(one.is_prefilling for one in core.scheduler):
        engine.drain(core, most_steps=1)
    return core


def calls_of(function):
    """Python functions entered while it runs."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_planning_calls_few_functions_a_sequence(tokenizer_dir, engine):
    few, many = (decoding(engine, tokenizer_dir, running) for running in (8, 64))
    calls = [calls_of(lambda core=core: core.scheduler.schedule(0.0)) for core in (few, many)]
    assert calls[1] - calls[0] <= (64 - 8) * MOST_CALLS_EACH
    assert calls[0] <= MOST_CALLS + 8 * MOST_CALLS_EACH


@pytest.mark.parametrize(("policy", "fresh"), [("rwa", 8), ("fcfs", 64), ("lpm", 64)])
def test_planning_asks_the_tree_about_a_part_of_those_that_wait(
    policy, fresh, tokenizer_dir, engine
):
    core = engine.hash_core(
        tokenizer_dir, eos_bias=-9.0, kv_pages=900, max_running=70, policy=policy
    )
    core.submit(engine.request(0, PROMPT, max_tokens=200))
    engine.drain(core, most_steps=2)
    core.allocator.pool.allocate(core.allocator.pool.free_pages - 2)  # the others wait for memory
    for number in range(1, 65):
        core.submit(engine.request(number, [number] * 64, max_tokens=50, run=f"run {number}"))
    core.step()
    asked = []
    plain = core.allocator.lookup_prefix

    def noting(key):
        asked.append(key)
        return plain(key)

    core.allocator.lookup_prefix = noting
    counts = []
    for _ in range(16):
        core.scheduler.schedule(core.clock.now_s())
        counts.append(len(asked))
        asked.clear()
    assert max(counts) <= 64 // fresh + MOST_TRIED


def test_planning_asks_torch_for_nothing(tokenizer_dir, engine):
    core = decoding(engine, tokenizer_dir, 64)
    with Operations() as operations:
        shares = core.scheduler.schedule(0.0)
    assert len(shares) == 64
    assert operations.count == 0


def test_packing_asks_torch_as_often_for_any_number(tokenizer_dir, engine):
    counts = []
    for running in (8, 64):
        core = decoding(engine, tokenizer_dir, running)
        parts = _parts(core)
        with Operations() as operations:
            core.executor.runner.packer.pack(parts)
        counts.append(operations.count)
    assert counts[0] == counts[1] <= 24


def test_a_constrained_step_asks_torch_for_its_logits_and_its_tokens(build, engine):
    core = build(jump_forward=False)
    if not core.executor.runner.model.network.is_single_call:
        pytest.skip("the decoder is no native call here")
    digits = ConstraintSpec("regex", "[0-9]{40}")
    core.submit(engine.request(1, PROMPT, max_tokens=50, constraint=digits))
    counts = []
    while core.has_work():
        with Operations() as operations:
            done = core.step()
        if done is not None and done.deltas:
            counts.append(operations.count)
    assert min(counts) == 2  # where a mask is late, as on a busy machine, there are more


def _parts(core):
    taken = []
    plain = core.executor.runner.forward

    def forward(parts):
        taken.append(list(parts))
        return plain(parts)

    core.executor.runner.forward = forward
    for _ in range(2):  # the views of a batch of this size are kept by then
        core.step()
    core.executor.runner.forward = plain
    return taken[-1]


def test_a_draft_that_is_not_found_costs_few_calls(tokenizer_dir, engine):
    """In a text without repetition a step with drafts on has nothing to verify."""
    calls = []
    for setting in ("off", "auto"):
        core = engine.hash_core(tokenizer_dir, eos_bias=-9.0, speculate_tokens=setting)
        core.submit(engine.request(0, PROMPT, max_tokens=50))
        while not core.decode_forwards:
            engine.drain(core, most_steps=1)
        calls.append(min(calls_of(core.step) for _ in range(10)))
    assert calls[1] - calls[0] <= MOST_DRAFTING_CALLS

"""Places that are kept: the order is the one that working all of them out anew would give."""

import random

import pytest

from agentrt.engine.sequence.sequence import QueueState

COMMON = [(3 * at) % 250 for at in range(96)]


@pytest.mark.parametrize(("policy", "deadline_s"), [("lpm", None), ("lpm", 2.0), ("fcfs", None)])
def test_a_kept_place_is_the_one_worked_out_anew(policy, deadline_s, tokenizer_dir, engine):
    core = engine.hash_core(tokenizer_dir, eos_bias=-9.0, kv_pages=60, max_running=6, policy=policy)
    queue, source = core.scheduler.queue, random.Random(7)
    sort, look = queue.sort, core.allocator.lookup_prefix
    asked, sorted_anew, kept = [], [], []

    def noting(key):
        asked.append(key)
        return look(key)

    def comparing(now_s, sequences):
        asked.clear()
        found = list(sort(now_s, list(sequences)))
        kept.append(len(sequences) - len(asked))
        states = [one.queue_state for one in sequences]
        for one in sequences:
            one.queue_state = QueueState()
        sorted_anew.append(list(sort(now_s, list(sequences))))
        for one, state in zip(sequences, states, strict=True):
            one.queue_state = state
        assert found == sorted_anew[-1]
        return found

    queue.sort, core.allocator.lookup_prefix = comparing, noting
    for number in range(40):
        kind = number % 12  # who comes first computes what the others of its kind then find
        own = [(kind * 17 + at) % 250 for at in range(16 * (1 + kind % 4))]
        prompt = [*COMMON[: 32 * (kind % 3)], *own, number, 251]
        core.submit(
            engine.request(
                number,
                prompt,
                max_tokens=source.randrange(2, 30),
                run=f"run {number % 9}",
                deadline_at_s=deadline_s,
            )
        )

    engine.drain(core)
    assert sum(len(one) > 4 for one in sorted_anew) > 20
    if deadline_s is None:
        assert sum(kept) > 100, "most places stand from step to step"

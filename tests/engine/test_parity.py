"""Greedy output equals `transformers` generate(), however the engine cuts, shares and preempts."""

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.engine.runner.model_executor import ModelExecutor
from tests.engine.transformers_said import EPSILON, said
from tests.oracles.clocked_core import ClockedCore

MOST_UNCOMPARED = 0.05
"""Share of the tokens that may come after such a difference, where there is nothing to compare."""
NEW_TOKENS = 12
KINDS = ("llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe", "gemma2")


def prompts():
    """Some that share beginnings of many lengths."""
    rng = random.Random(7)
    stem = [rng.randrange(256) for _ in range(45)]
    made = [stem[:cut] + [rng.randrange(256) for _ in range(tail)] for cut, tail in CUTS]
    return [*made, stem, [rng.randrange(256)]]


CUTS = ((40, 3), (33, 9), (17, 20), (16, 1), (5, 30))
PROMPTS = prompts()


plans = st.fixed_dictionaries(
    {
        "page_tokens": st.sampled_from([1, 4, 16]),
        "prefill_chunk_tokens": st.sampled_from([3, 16, 64]),
        "step_tokens": st.sampled_from([8, 40, 256]),
        "max_running": st.sampled_from([1, 3, 8]),
        "tight": st.booleans(),
        "tile_tokens": st.sampled_from([16, 4096]),
        "order": st.permutations(range(len(PROMPTS))),
        "late": st.integers(0, len(PROMPTS)),
    }
)


def tight(page_tokens):
    """A pool that holds little more than the longest sequence, short chunks, and many at once."""
    return {
        "page_tokens": page_tokens,
        "prefill_chunk_tokens": 16,
        "step_tokens": 40,
        "max_running": 8,
        "tight": True,
        "tile_tokens": 16,
        "order": list(range(len(PROMPTS))),
        "late": 3,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_equals_generate(kind, model_dir, engine, capsys):
    path = model_dir(kind)
    seen = {"ties": 0, "uncompared": 0, "tokens": 0, "preemptions": 0, "cached": 0}

    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans)
    @example(plan=tight(page_tokens=1))
    @example(plan=tight(page_tokens=4))
    def check(plan):
        before = seen["preemptions"]
        _serve_and_compare(path, dict(plan), engine, seen)
        if plan in (tight(page_tokens=1), tight(page_tokens=4)):
            assert seen["preemptions"] > before, "the pool was not tight"

    check()
    assert seen["cached"] > 0
    assert seen["preemptions"] > 0
    assert seen["uncompared"] <= MOST_UNCOMPARED * seen["tokens"]
    with capsys.disabled():
        print(
            f"\n{kind}: {seen['tokens']} tokens, {seen['ties']} ties under {EPSILON} "
            f"({seen['uncompared']} tokens from there on), "
            f"{seen['preemptions']} preemptions, {seen['cached']} cached tokens"
        )


def _serve_and_compare(path, plan, engine, seen):
    page = plan["page_tokens"]
    longest = -(-(max(map(len, PROMPTS)) + NEW_TOKENS + 1) // page)
    pages = longest + longest // 4 if plan.pop("tight") else 8 * longest
    order, late, tile = plan.pop("order"), plan.pop("late"), plan.pop("tile_tokens")
    config = EngineConfig(path, kv_pages=pages, threads=1, **plan)
    clock = FakeClock()
    core = ClockedCore(config, clock, ModelExecutor(config, clock, tile_tokens=tile))
    for index in order[late:]:
        core.submit(engine.request(index, PROMPTS[index], max_tokens=NEW_TOKENS))
    served = engine.drain(core, most_steps=5)
    for index in order[:late]:
        core.submit(engine.request(index, PROMPTS[index], max_tokens=NEW_TOKENS))
    engine.drain(core, served)
    core.close()
    for index in order:
        end = served.ends[index]
        seen["preemptions"] += end.ledger.preemptions
        seen["cached"] += end.ledger.cached_tokens
        uncompared = _uncompared(served.ids(index), *said(path, PROMPTS[index], NEW_TOKENS))
        seen["ties"] += uncompared > 0
        seen["uncompared"] += uncompared
        seen["tokens"] += len(served.ids(index))
    assert core.allocator.pool.owned_pages == 0
    assert core.allocator.tree.evictable_pages == core.allocator.pool.tree_pages


def _uncompared(mine, theirs, gaps):
    """Tokens from where they part at a tie; they must not part elsewhere."""
    theirs = theirs[: theirs.index(257)] if 257 in theirs else theirs
    for at, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if one != other:
            assert gaps[at] < EPSILON, f"token {at}: {one} is not {other}, gap {gaps[at]}"
            return len(mine) - at
    assert len(mine) == len(theirs)
    return 0

"""Masks of a slow grammar that are late while a draft is being verified."""

import math
import threading

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from tests.engine.test_slow_constraints import PROMPT, hold_masks, one_of


@pytest.mark.parametrize("source", ["site", "model"])
def test_a_mask_that_is_late_while_a_draft_is_verified(tokenizer_dir, engine, monkeypatch, source):
    """The rest of the draft is dropped; the last token is computed again, for the mask's sake."""
    spec = ConstraintSpec("regex", "[a-f]{24}")
    how = {"constraint": spec, "max_tokens": 24, "temperature": 1.0, "seed": 3}
    model = {"draft_runner": engine.hash_machine} if source == "model" else {}
    core = engine.hash_core(tokenizer_dir, speculate_tokens=8, eos_bias=-9.0, **model)
    filler = core.executor.sampler.mask_filler
    filler.row_budget_s, filler.thread_pays_s, filler.limit_s = 60.0, math.inf, 60.0
    core.submit(engine.request(1, PROMPT, **how))
    plain = engine.drain(core).ids(1)
    assert len(plain) == 24

    let_go = threading.Event()
    hold_masks(monkeypatch, let_go, lambda grammar: grammar.mask_place.is_apart)
    late = engine.request(2, PROMPT if source == "site" else PROMPT[1:], **how)
    if source == "model":  # another text than the site's
        alone = engine.hash_core(tokenizer_dir, eos_bias=-9.0)
        alone.submit(late)
        plain = engine.drain(alone).ids(2)
    core.submit(late)
    sequence = one_of(core)
    while len(sequence.tokens) == sequence.prompt_tokens:
        engine.drain(core, most_steps=1)
        filler.row_budget_s = 0.0  # the next mask is slow, and those behind it are held
    served = engine.drain(core, most_steps=1)
    written = len(sequence.tokens) - sequence.prompt_tokens
    for _ in range(5):
        engine.drain(core, served, most_steps=1)
        assert len(sequence.tokens) - sequence.prompt_tokens == written
        assert sequence.computed_tokens <= len(sequence.tokens)
    counts = sequence.metrics
    assert sum(counts.accepted_tokens.values()) > 0
    assert counts.rejected_tokens[source] > 0
    let_go.set()
    filler.row_budget_s = 60.0
    engine.drain(core, served, most_steps=40)
    assert sequence.tokens[sequence.prompt_tokens :] == plain
    pool, tree = core.allocator.pool, core.allocator.tree
    assert pool.owned_pages == 0
    assert tree.evictable_pages == pool.tree_pages

"""Thousands of random operations; an engine that is idle then holds nothing outside its trees."""

import random

import pytest
import torch

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill, KvHint, PrefixHint

OPERATIONS = 2500
FEW_OPERATIONS = 500
PAGE_BYTES = 8 * 2 * 4
SPECS = (None, None, None, ConstraintSpec("regex", "[ab]{3,9}c*"))


class Storm:
    """Somebody who does anything at any time."""

    def __init__(self, core, engine, seed):
        self.core, self.engine = core, engine
        self.random = random.Random(seed)
        self.served = engine.Served()
        self.prompts: dict[int, list[int]] = {}
        self.open: set[int] = set()
        self.breaks = False
        plain = core.executor.runner.forward

        def forward(parts):
            logits = plain(parts)
            if self.breaks and logits.shape[0]:
                logits[0] = torch.nan
            return logits

        core.executor.runner.forward = forward

    def act(self):
        do = self.random.choices(
            [self.submit, self.fork, self.step, self.cancel, self.fill, self.hint, self.fail],
            [16, 12, 55, 6, 6, 4, 1],
        )[0]
        do()

    def submit(self):
        stem = [7 * at % 250 for at in range(self.random.randrange(70))]
        self._send([*stem, *self._tail()])

    def fork(self):
        """Continue what somebody said, several times."""
        if not self.prompts:
            return
        of = self.random.choice(list(self.prompts))
        known = self.prompts[of] + self.served.ids(of)
        for _ in range(self.random.randrange(1, 4)):
            self._send([*known[:90], *self._tail()])

    def _tail(self):
        return [self.random.randrange(250) for _ in range(self.random.randrange(1, 5))]

    def _send(self, prompt):
        number = len(self.prompts)
        self.prompts[number] = prompt
        complete = self.random.random() < 0.8
        if not complete:
            self.open.add(number)
        self.core.submit(
            self.engine.request(
                number,
                prompt,
                complete=complete,
                constraint=self.random.choice(SPECS),
                on_limit=self.random.choice(["raise", "close"]),
                max_tokens=self.random.randrange(1, 30),
                temperature=self.random.choice([0.0, 1.0]),
                seed=number,
                stop=self.random.choice([(), (), ("a",)]),
                demanded=self.random.random() < 0.7,
            )
        )

    def step(self):
        self.engine.drain(self.core, self.served, most_steps=self.random.randrange(1, 4))

    def cancel(self):
        if self.prompts:
            number = self.random.randrange(max(0, len(self.prompts) - 12), len(self.prompts))
            self.core.cancel(RequestId(number), "test")

    def fill(self):
        if self.open:
            number = self.random.choice(sorted(self.open))
            complete = self.random.random() < 0.7
            more = self._tail()
            self.prompts[number] += more
            self.core.fill_hole(RequestId(number), HoleFill(tuple(more), complete=complete))
            self.open -= {number} if complete else set()

    def hint(self):
        if self.prompts:
            of = self.random.choice(list(self.prompts))
            hint: KvHint = self.random.choice(["keep", "drop", "demote", "prefetch"])
            until_s = self.random.choice([None, self.core.clock.now_s() + 0.05])
            self.core.hint(PrefixHint(tuple(self.prompts[of]), hint, until_s))

    def fail(self):
        self.breaks = True
        self.step()
        self.breaks = False

    def rest(self):
        """Finish everything."""
        for number in sorted(self.open):
            self.core.fill_hole(RequestId(number), HoleFill((1,), complete=True))
        self.open.clear()
        self.engine.drain(self.core, self.served)


def hold(core, *, idle):
    """What is true of pages at any time, and more of an idle engine."""
    tiers = [(core.allocator.pool, core.allocator.tree)]
    if core.executor.offload is not None:
        tiers.append((core.executor.offload.tier.pool, core.executor.offload.tier.tree))
    for pool, tree in tiers:
        assert pool.free_pages + pool.tree_pages + pool.owned_pages == pool.total_pages
        nodes = list(tree.nodes())
        pages = [page for node in nodes for page in node.pages]
        lent = sum(node.is_lent for node in nodes)
        assert len(pages) == len(set(pages)) == pool.tree_pages + lent
        free = [node for node in nodes if not node.locks and not node.is_lent]
        assert tree.evictable_pages == sum(len(node.pages) for node in free)
        assert all(node.parent is tree.root or node.parent.locks >= node.locks for node in nodes)
        if idle:
            assert pool.owned_pages == lent == 0
            assert tree.evictable_pages == pool.tree_pages
            assert all(node.locks == 0 for node in nodes)


@pytest.mark.parametrize(
    "operations", [FEW_OPERATIONS, pytest.param(OPERATIONS, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("host_pages", [0, 30])
def test_an_idle_engine_holds_nothing_outside_its_trees(
    operations, overlap, host_pages, tokenizer_dir, engine
):
    core = engine.hash_core(
        tokenizer_dir,
        eos_bias=0.5,
        overlap=overlap,
        kv_pages=24,
        host_kv_bytes=host_pages * PAGE_BYTES,
        page_tokens=8,
        prefill_chunk_tokens=24,
        step_tokens=64,
        max_running=6,
    )
    storm = Storm(core, engine, seed=host_pages + len(overlap))
    for at in range(operations):
        storm.act()
        if at % 8 == 0:
            hold(core, idle=False)
        if at % 250 == 249:
            storm.rest()
            assert not core.has_work()
            hold(core, idle=True)
            assert core.allocator.free_slots == 6
    core.close()
    ends = storm.served.ends
    assert ends.keys() == storm.prompts.keys()
    assert {end.reason for end in ends.values()} == {"stop", "length", "cancelled", "failed"}
    assert any(end.ledger.preemptions for end in ends.values())
    assert any(end.ledger.cached_host_tokens for end in ends.values()) == bool(host_pages)

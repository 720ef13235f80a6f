"""KV that the device has no room for comes back from the host, and is the same."""

from contextlib import contextmanager

import pytest
import torch

from agentrt.base.clock import FakeClock
from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.kv.offload import CopyRates, CopyStream, HostCopier, contiguous_runs, copy_pays
from agentrt.protocol.backend import PrefixHint
from agentrt_kernels.reference import Reference

PAGE_BYTES = 16 * 2 * 4  # of the hash machine: one layer, one head, one value
FIRST = [(3 * at) % 250 for at in range(128)]
SECOND = [(7 * at + 1) % 250 for at in range(128)]


def pages(*numbers):
    return [PageId(number) for number in numbers]


def core_with(engine, folder, **settings):
    settings = {"kv_pages": 12, "host_kv_bytes": 40 * PAGE_BYTES, "eos_bias": -9.0} | settings
    return engine.hash_core(folder, **settings)


def ask(core, engine, number, prompt, **sampling):
    core.submit(engine.request(number, prompt, **{"max_tokens": 4} | sampling))
    return engine.drain(core)


def test_an_evicted_prefix_is_loaded_and_not_computed(tokenizer_dir, engine):
    core = core_with(engine, tokenizer_dir)
    before = ask(core, engine, 1, FIRST).ids(1)
    ask(core, engine, 2, SECOND)
    served = ask(core, engine, 3, FIRST)
    ledger = served.ends[3].ledger
    assert served.ids(3) == before
    assert ledger.cached_tokens == 112
    assert ledger.cached_host_tokens > 0
    assert sum(done.step.prefill_tokens for done in served.steps if done.step) == 16


def test_without_a_budget_it_is_computed_again(tokenizer_dir, engine):
    core = core_with(engine, tokenizer_dir, host_kv_bytes=0)
    before = ask(core, engine, 1, FIRST).ids(1)
    ask(core, engine, 2, SECOND)
    served = ask(core, engine, 3, FIRST)
    assert served.ids(3) == before
    assert served.ends[3].ledger.cached_tokens < 112
    assert served.ends[3].ledger.cached_host_tokens == 0


def test_who_is_preempted_gets_its_pages_back(tokenizer_dir, engine):
    told = []
    for budget in (0, 60 * PAGE_BYTES):
        core = core_with(engine, tokenizer_dir, kv_pages=11, host_kv_bytes=budget)
        for number in range(5):
            core.submit(engine.request(number, FIRST[number : number + 40], max_tokens=60))
        told.append(engine.drain(core))
    plain, swapped = told
    assert all(plain.ids(number) == swapped.ids(number) for number in range(5))
    assert any(end.ledger.preemptions for end in swapped.ends.values())
    assert any(end.ledger.cached_host_tokens for end in swapped.ends.values())
    recomputed = [sum(e.ledger.recomputed_tokens for e in one.ends.values()) for one in told]
    assert recomputed[1] < recomputed[0]


def test_demoted_and_fetched_ahead(tokenizer_dir, engine):
    core = core_with(engine, tokenizer_dir)
    ask(core, engine, 1, FIRST)
    core.hint(PrefixHint(tuple(FIRST), "demote"))
    assert core.executor.offload.tier.pool.tree_pages == 8
    core.allocator.tree.evict(12)
    assert core.executor.offload.tier.saved_pages == 8, "it had been saved"
    core.hint(PrefixHint(tuple(FIRST), "prefetch"))
    assert core.allocator.pool.tree_pages == 8
    served = ask(core, engine, 2, FIRST)
    assert served.ends[2].ledger.cached_tokens == 127
    assert served.ends[2].ledger.cached_host_tokens == 0


def test_what_is_kept_until_an_instant_goes_after_it(tokenizer_dir, engine):
    core = core_with(engine, tokenizer_dir, host_kv_bytes=0, kv_pages=18)
    clock = core.clock
    ask(core, engine, 1, FIRST)
    core.hint(PrefixHint(tuple(FIRST), "keep", clock.now_s() + 5.0))
    for number in (2, 3):
        ask(core, engine, number, [number, *SECOND[:90]])
    assert ask(core, engine, 4, FIRST).ends[4].ledger.cached_tokens == 127
    clock.advance(6.0)
    for number in (5, 6, 7):
        ask(core, engine, number, [number, *SECOND[:90]])
    assert ask(core, engine, 8, FIRST).ends[8].ledger.cached_tokens < 112


def test_a_budget_below_one_page_is_refused(tokenizer_dir, engine):
    with pytest.raises(UsageError, match="host_kv_bytes=5 holds no page"):
        core_with(engine, tokenizer_dir, host_kv_bytes=5)


def test_pages_move_by_runs():
    assert contiguous_runs([], []) == []
    here, there = pages(4, 5, 6, 9, 2), pages(0, 1, 7, 8, 9)
    assert contiguous_runs(here, there) == [(4, 2, 0), (6, 1, 7), (9, 1, 8), (2, 1, 9)]


def test_swapping_pays_where_copies_are_faster_than_prefill():
    assert copy_pays(kv_bytes=537e6, bytes_s=50e9, tokens=4096, tokens_s=52e3)
    assert not copy_pays(kv_bytes=537e6, bytes_s=1e9, tokens=4096, tokens_s=52e3)
    rates = CopyRates(page_bytes=1 << 20, page_tokens=16)
    assert rates.swap_pays(4096)
    assert not rates.swap_pays(16), "too little for a copy of its own"
    for _ in range(50):
        rates.note_copy(1, 1.0)
    assert not rates.swap_pays(4096)


class LoggedStream(CopyStream):
    """Stands in for a CUDA stream: logs what it is asked for."""

    is_synchronous = False

    def __init__(self, layers):
        self.layers = layers
        self.log = []

    @contextmanager
    def activate(self):
        self.log.append("begin")
        yield

    def wait_all(self):
        self.log.append("join")

    def record_layer(self, layer):
        self.log.append(f"mark {layer}")

    def wait_layer(self, layer):
        self.log.append(f"wait {layer}")


def test_layers_are_loaded_one_after_the_other_and_all_is_there():
    layout = KvLayout(3, 2, 4, 5, torch.float32, torch.device("cpu"))
    kv = KvCache(layout, 7)
    stream = LoggedStream(3)
    rates = CopyRates(layout.page_bytes, 5)
    copier = HostCopier(kv, 4, Reference(), rates, FakeClock(), stream)
    kv.memory.copy_(torch.randn(kv.memory.shape))
    before = kv.memory.clone()
    copier.save(pages(2, 3, 6), pages(1, 0, 2))
    kv.memory.zero_()
    copier.load(pages(1, 0, 2), pages(5, 4, 0))
    copier.wait_layer(1)
    assert torch.equal(kv.memory[[5, 4, 0]], before[[2, 3, 6]])
    assert kv.memory[[1, 2, 3, 6]].count_nonzero() == 0
    marks = [f"mark {layer}" for layer in range(3)]
    assert stream.log == ["begin", "join", "begin", *marks, "wait 1"]


def test_a_forward_waits_for_each_layer_before_it_reads_it(build, engine):
    core = build("llama", kernels="torch")
    waited = []

    class Arrivals:
        def wait_layer(self, layer):
            waited.append(layer)

    core.executor.runner.kv_arrival = Arrivals()
    ask(core, engine, 1, FIRST[:20], max_tokens=2)
    assert waited == [0, 1] * 2

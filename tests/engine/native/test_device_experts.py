"""Experts that are copied to a device: waves, and the order of copies and products."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.ops.device_experts import DeviceExperts, ExpertSlots
from agentrt.engine.ops.expert_cache import ExpertCache
from agentrt.engine.ops.expert_copies import ExpertCopies
from agentrt.engine.ops.expert_offload import slot_counts
from agentrt.engine.ops.experts import ExpertRows, Routes
from agentrt.engine.ops.linear import LinearBackend
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels.contract import SILU
from agentrt_kernels.cpu.experts import ExpertMatrices

HIDDEN, INNER = 6, 4
CPU = torch.device("cpu")
quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)


@quick
@given(slots=st.integers(1, 5000), layers=st.integers(1, 60))
def test_all_slots_but_a_rest_are_used(slots, layers):
    counts = slot_counts(slots, layers)
    assert sum(counts.stay) + sum(counts.passage) <= slots
    assert slots - 1 <= sum(counts.stay) + sum(counts.passage)
    assert len(counts.stay) == layers
    assert max(counts.stay) - min(counts.stay) <= 1
    assert min(counts.passage) >= 1
    assert len(set(counts.passage)) == 1


class LateCopies(ExpertCopies):
    """Copies are made as late as their marks allow, each by whoever waits for it."""

    def __init__(self) -> None:
        self.queue: list[Callable[[], None]] = []
        self.made = 0

    def arrival(self) -> int:
        return len(self.queue)

    def await_arrival(self, mark: int) -> None:
        while self.made < mark:
            self.queue[self.made]()
            self.made += 1


class LateSlots(ExpertSlots):
    """Slots whose contents are of no expert until a copy is made."""

    def __init__(self, count, like, copies):
        super().__init__(count, like, CPU)
        self.copies = copies
        self.gate_up.fill_(torch.nan)

    def fill(self, slot, expert):
        self.copies.queue.append(lambda: super(LateSlots, self).fill(slot, expert))


def some_rows(tokens, each):
    widths = (HIDDEN, 2 * INNER, INNER)
    return ExpertRows(*(torch.full((tokens * each, width), torch.nan) for width in widths))


@quick
@given(
    experts=st.integers(1, 7),
    stay=st.integers(0, 5),
    passage=st.sampled_from([(1,), (1, 1), (2, 2)]),
    biased=st.booleans(),
    late=st.booleans(),
    data=st.data(),
)
def test_products_wait_for_their_copies_and_no_row_is_lost(
    experts, stay, passage, biased, late, data
):
    source = torch.Generator().manual_seed(experts)

    def some(*size):
        return torch.randn(size, generator=source)

    host = [(some(2 * INNER, HIDDEN), some(HIDDEN, INNER)) for _ in range(experts)]
    biases = (some(experts, 2 * INNER), some(experts, HIDDEN)) if biased else None
    matrices = [
        ExpertMatrices(
            gate_up,
            None if biases is None else biases[0][at],
            down,
            None if biases is None else biases[1][at],
        )
        for at, (gate_up, down) in enumerate(host)
    ]
    kernels = TorchKernels()
    plain = LinearBackend(torch.float32, CPU, kernels).experts(matrices, SILU)
    copies = LateCopies() if late else ExpertCopies()

    def slots(count):
        return LateSlots(count, host[0], copies) if late else ExpertSlots(count, host[0], CPU)

    size = sum(one.nbytes for one in host[0])
    cache = ExpertCache(stay * size)
    ours = DeviceExperts(
        host,
        biases,
        slots(stay),
        [slots(count) for count in passage],
        cache,
        copies,
        SILU,
        kernels,
    )
    for _ in range(4):
        tokens, each = data.draw(st.integers(1, 5)), data.draw(st.integers(1, experts))
        x = some(tokens, HIDDEN)
        chosen = torch.rand(tokens, experts, generator=source).argsort(-1)[:, :each].contiguous()
        shares = torch.rand(tokens, each, generator=source)
        if data.draw(st.booleans()):
            dropped = torch.rand(chosen.shape, generator=source) < 0.4
            chosen[dropped], shares[dropped] = experts, 0.0
        expected, found = torch.empty(2, tokens, HIDDEN)
        rows = some_rows(tokens, each)
        for buffer in (rows.sorted, rows.gate_up, rows.inner):
            buffer.zero_()
        plain.apply(x, Routes(chosen, shares), rows, expected)
        ours.apply(x, Routes(chosen, shares), some_rows(tokens, each), found)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert cache.residency.resident_bytes <= stay * size


def test_experts_that_stay_are_not_copied_again():
    host = [(torch.ones(2 * INNER, HIDDEN), torch.ones(HIDDEN, INNER)) for _ in range(3)]
    copies = LateCopies()
    size = sum(one.nbytes for one in host[0])
    own, passage = LateSlots(2, host[0], copies), LateSlots(1, host[0], copies)
    layer = DeviceExperts(
        host, None, own, [passage], ExpertCache(2 * size), copies, SILU, TorchKernels()
    )
    for _ in range(3):
        chosen = torch.tensor([[0, 1]])
        routes = Routes(chosen, torch.ones(1, 2))
        layer.apply(torch.ones(1, HIDDEN), routes, some_rows(1, 2), torch.empty(1, HIDDEN))
    assert len(copies.queue) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_pinned_memory_is_a_copy():
    from agentrt.engine.ops.expert_copies import pinned

    matrix = torch.randn(300, 40)
    assert torch.equal(pinned(matrix), matrix)
    assert pinned(matrix).is_pinned()

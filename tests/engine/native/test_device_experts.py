"""Experts that are copied to a device: waves, and the order of copies and products."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.models.quantisation import quantised
from agentrt.engine.ops.device_experts import DeviceExperts, ExpertSlots, slot_memory
from agentrt.engine.ops.expert_cache import ExpertCache
from agentrt.engine.ops.expert_copies import ExpertCopies
from agentrt.engine.ops.expert_offload import slot_counts
from agentrt.engine.ops.experts import DenseExperts, ExpertRows, Routes
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

    def __init__(self, like, memory, copies):
        super().__init__(like, memory)
        self.copies = copies
        for part in (*memory[0], *memory[1]):
            part.fill_(torch.nan if part.is_floating_point() else 77)

    def fill(self, slot, host, expert):
        self.copies.queue.append(lambda: super(LateSlots, self).fill(slot, host, expert))


def all_experts(form, biased, count, kernels):
    """Matrices of experts, and both projections of all of them."""
    source = torch.Generator().manual_seed(count)

    def one(outputs, inputs):
        matrix = torch.randn(outputs, inputs, generator=source)
        return FORMS[form](matrix), torch.randn(outputs, generator=source) if biased else None

    matrices = [ExpertMatrices(*one(2 * INNER, HIDDEN), *one(HIDDEN, INNER)) for _ in range(count)]
    pairs = [[(one.gate_up, one.gate_up_bias) for one in matrices]]
    pairs.append([(one.down, one.down_bias) for one in matrices])
    projections = []
    for held in pairs:
        weights, biases = zip(*held, strict=True)
        rows = torch.stack(biases) if biased else None
        if form == "plain":
            projections.append(DenseExperts(torch.stack(weights), rows))
        else:
            projections.append(kernels.pack_expert_codes(weights, rows))
    return matrices, tuple(projections)


FORMS = {
    "plain": lambda matrix: matrix,
    "int8": lambda matrix: quantised(matrix, 8, matrix.shape[1]),
    "int4": lambda matrix: quantised(matrix, 4, 2),
}


def some_rows(tokens, each):
    widths = (HIDDEN, 2 * INNER, INNER)
    return ExpertRows(*(torch.full((tokens * each, width), torch.nan) for width in widths))


@quick
@given(
    experts=st.integers(1, 7),
    stay=st.integers(0, 5),
    passage=st.sampled_from([(1,), (1, 1), (2, 2)]),
    form=st.sampled_from(sorted(FORMS)),
    biased=st.booleans(),
    late=st.booleans(),
    data=st.data(),
)
def test_products_wait_for_their_copies_and_no_row_is_lost(
    experts, stay, passage, form, biased, late, data
):
    source = torch.Generator().manual_seed(experts)
    kernels = TorchKernels()
    matrices, host = all_experts(form, biased, experts, kernels)
    plain = LinearBackend(torch.float32, CPU, kernels).experts(matrices, SILU)
    copies = LateCopies() if late else ExpertCopies()

    def slots(count):
        memory = slot_memory(host, count, CPU)
        return LateSlots(host, memory, copies) if late else ExpertSlots(host, memory)

    size = sum(part[0].nbytes for one in host for part in one.parts)
    cache = ExpertCache(stay * size)
    own, passing = slots(stay), [slots(count) for count in passage]
    ours = DeviceExperts(host, own, passing, cache, copies, SILU, kernels)
    for _ in range(4):
        tokens, each = data.draw(st.integers(1, 5)), data.draw(st.integers(1, experts))
        x = torch.randn(tokens, HIDDEN, generator=source)
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
    kernels = TorchKernels()
    _, host = all_experts("int4", True, 3, kernels)
    copies = LateCopies()
    size = sum(part[0].nbytes for one in host for part in one.parts)
    own, passage = (LateSlots(host, slot_memory(host, count, CPU), copies) for count in (2, 1))
    layer = DeviceExperts(host, own, [passage], ExpertCache(2 * size), copies, SILU, kernels)
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

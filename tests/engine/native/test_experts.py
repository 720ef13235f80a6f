"""Experts: the few that a token takes, computed without the others."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from agentrt.engine.models.native.experts import Experts, Gated
from agentrt.engine.models.native.routing import trained
from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.models.native.workspace import ActivationRows
from agentrt.engine.ops.experts import ExpertRows, Routes, SortedExperts
from agentrt.engine.ops.linear import LinearBackend
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels import load
from agentrt_kernels.contract import SILU, KernelsUnavailable
from agentrt_kernels.cpu.experts import ExpertMatrices
from agentrt_kernels.looped_experts import LoopedExperts

HIDDEN, INNER, SHARED = 12, 6, 10
CPU = torch.device("cpu")
SETS = ("torch", "reference", "cpu")


def kernels_named(name):
    try:
        return TorchKernels() if name == "torch" else load(name)
    except KernelsUnavailable as error:
        pytest.skip(str(error))


def weights_for(experts, source):
    def some(*size):
        return torch.randn(size, generator=source)

    return SimpleNamespace(
        router=some(experts, HIDDEN),
        gate_up=some(experts, 2 * INNER, HIDDEN),
        down=some(experts, HIDDEN, INNER),
        shared=SimpleNamespace(gate_up=some(2 * SHARED, HIDDEN), down=some(HIDDEN, SHARED)),
        shared_gate=some(1, HIDDEN),
    )


def experts_of(shape, weights, backend):
    gate_up, down = weights.shared.gate_up, weights.shared.down
    shared = Gated(backend.linear(gate_up), backend.linear(down), SHARED, SILU)
    matrices = [
        ExpertMatrices(gate_up, None, down, None)
        for gate_up, down in zip(weights.gate_up, weights.down, strict=True)
    ]
    return Experts(
        shape=shape,
        router=backend.linear(weights.router),
        routed=backend.experts(matrices, SILU),
        shared=shared,
        shared_gate=backend.linear(weights.shared_gate),
    )


def gated(x, gate_up, down):
    gate, up = (gate_up @ x).chunk(2)
    return down @ (functional.silu(gate) * up)


def one_token(x, weights, shape):
    """As the papers write it, for one token `[hidden]`."""
    shares, chosen = (weights.router @ x).softmax(-1).topk(shape.experts_per_token)
    if shape.normalizes_weights:
        shares = shares / shares.sum()
    parts = [
        share * gated(x, weights.gate_up[one], weights.down[one])
        for share, one in zip(shares, chosen, strict=True)
    ]
    shared = gated(x, weights.shared.gate_up, weights.shared.down)
    return sum(parts) + torch.sigmoid(weights.shared_gate @ x) * shared


def room(tokens, chosen):
    def some(width):
        return torch.empty(tokens, width)

    none = torch.empty(0)
    wider = some(2 * SHARED + 4), some(SHARED + 2)  # than the layer: other layers use it too
    several = (torch.empty(tokens * chosen, width) for width in (HIDDEN, 2 * INNER, INNER))
    return ActivationRows(none, none, none, none, none, none, none, *wider, ExpertRows(*several))


@pytest.mark.parametrize("kernels", SETS)
@settings(derandomize=True, database=None, deadline=None, max_examples=15)
@given(tokens=st.integers(1, 9), experts=st.integers(1, 6), data=st.data())
def test_each_token_gets_its_experts(kernels, tokens, experts, data):
    shape = ExpertShape(
        count=experts,
        experts_per_token=data.draw(st.integers(1, experts)),
        inner=INNER,
        normalizes_weights=data.draw(st.booleans()),
        rounds_weights=True,
        shared_inner=SHARED,
        biased=False,
        layers=frozenset({0}),
    )
    source = torch.Generator().manual_seed(tokens * 7 + experts)
    weights, kernel_set = weights_for(experts, source), kernels_named(kernels)
    x = torch.randn((tokens, HIDDEN), generator=source)
    layer = experts_of(shape, weights, LinearBackend(torch.float32, CPU, kernel_set))

    buffers, out = room(tokens, shape.experts_per_token), torch.empty(tokens, HIDDEN)
    mine = layer.apply(kernel_set, x, buffers, out, trained)

    theirs = torch.stack([one_token(token, weights, shape) for token in x])
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_experts_that_nobody_chose_are_not_multiplied():
    shape = ExpertShape(4, 1, INNER, True, True, 0, False, frozenset({0}))
    weights = weights_for(4, torch.Generator().manual_seed(0))
    weights.router.zero_()[2] = 1.0  # all tokens want the third
    kernels = TorchKernels()
    layer = experts_of(shape, weights, LinearBackend(torch.float32, CPU, kernels))
    asked: list[int] = []
    counted = LoopedExperts([Counted(asked, number) for number in range(4)])
    layer = dataclasses.replace(layer, routed=SortedExperts(counted, counted, 4, SILU, kernels))
    layer.apply(kernels, torch.ones(5, HIDDEN), room(5, 1), torch.empty(5, HIDDEN), trained)
    assert asked == [2, 2]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kernels", SETS)
def test_choices_of_no_expert_add_nothing(kernels, biased):
    source, kernel_set = torch.Generator().manual_seed(1), kernels_named(kernels)
    weights = weights_for(3, source)
    biases = [torch.randn(3, width, generator=source) for width in (2 * INNER, HIDDEN)]
    matrices = [
        ExpertMatrices(
            weights.gate_up[one],
            biases[0][one] if biased else None,
            weights.down[one],
            biases[1][one] if biased else None,
        )
        for one in range(3)
    ]
    layer = LinearBackend(torch.float32, CPU, kernel_set).experts(matrices, SILU)
    x = torch.randn((3, HIDDEN), generator=source)
    chosen = torch.tensor([[0, 2], [3, 1], [3, 3]])
    shares = torch.tensor([[0.5, 0.25], [0.0, 2.0], [0.0, 0.0]])
    out = torch.empty(3, HIDDEN)
    layer.apply(x, Routes(chosen, shares), room(3, 2).experts, out)

    def made(row, one):
        both = weights.gate_up[one] @ x[row] + (biases[0][one] if biased else 0)
        gate, up = both.chunk(2)
        down = weights.down[one] @ (functional.silu(gate) * up)
        return down + (biases[1][one] if biased else 0)

    expected = [made(0, 0) / 2 + made(0, 2) / 4, 2 * made(1, 1), torch.zeros(HIDDEN)]
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-4, atol=1e-4)


class Counted:
    """A matrix that says that it was used."""

    def __init__(self, asked, number):
        self.asked, self.number = asked, number

    def apply(self, x, out=None):
        self.asked.append(self.number)
        return out.fill_(0.0)

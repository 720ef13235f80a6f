"""Routing as trained by the kernel set: plain routes, and their order where rows are sorted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from agentrt.base.config import EngineConfig
from agentrt.engine.models.kv_layout import kv_layout
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.native.build import build_network, read_weights
from agentrt.engine.models.native.kernel_routing import KernelRouting
from agentrt.engine.models.native.routing import Threshold, trained
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.models.native.shape import DecoderShape, ExpertShape
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.ops.experts import ExpertRows, Routes
from agentrt.engine.ops.linear import LinearBackend
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels import load
from agentrt_kernels.check.stored import stored
from agentrt_kernels.contract import SILU, Kernels
from agentrt_kernels.cpu.experts import ExpertMatrices
from agentrt_kernels.reference import Reference

CPU = torch.device("cpu")
HIDDEN, INNER = 64, 32


def shape_of(count: int, each: int, *, normalizes: bool = True, rounds: bool = True) -> ExpertShape:
    return ExpertShape(count, each, INNER, normalizes, rounds, 0, False, frozenset({0}))


def triton() -> Kernels:
    pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")
    return load("triton")


def layer_of(kernels: Kernels, count: int):
    matrices = [
        ExpertMatrices(
            stored("mxfp4", 2 * INNER, HIDDEN, CPU, 2 * at),
            None,
            stored("mxfp4", HIDDEN, INNER, CPU, 2 * at + 1),
            None,
        )
        for at in range(count)
    ]
    return LinearBackend(torch.float32, CPU, kernels).experts(matrices, SILU)


def room(choices: int) -> ExpertRows:
    return ExpertRows(*(torch.empty(choices, width) for width in (HIDDEN, 2 * INNER, INNER)))


@pytest.mark.parametrize("name", ["torch", "triton"])
@settings(derandomize=True, database=None, deadline=None, max_examples=8)
@given(tokens=st.integers(1, 9), count=st.integers(1, 9), data=st.data())
def test_routes_are_the_trained_ones(name, tokens, count, data) -> None:
    kernels = TorchKernels() if name == "torch" else triton()
    shape = shape_of(count, data.draw(st.integers(1, count)), normalizes=data.draw(st.booleans()))
    scores = torch.randn(tokens, count, generator=torch.Generator().manual_seed(tokens + count))
    found, expected = KernelRouting(kernels)(scores, shape), trained(scores, shape)
    assert torch.equal(found.chosen, expected.chosen)
    torch.testing.assert_close(found.shares.float(), expected.shares.float())
    assert found.order is not None
    assert torch.equal(found.order.places, kernels.sort_choices(found.chosen, count).places)


class Operations(TorchDispatchMode):
    """Keeps names of torch's operations but those that only make or view a tensor."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name not in {"empty", "select", "view", "slice", "detach"}:
            self._names.append(name)
        return func(*args, **(kwargs or {}))


def test_a_layer_is_a_gather_and_five_launches(monkeypatch) -> None:
    """With routes of another rule as well, whose choices the same kernel sorts."""
    kernels = triton()
    from triton.runtime.interpreter import GridExecutor

    names: list[str] = []
    run = GridExecutor.__call__

    def watched(self, *args, **how):
        before = len(names)
        run(self, *args, **how)
        names[before:] = [self.fn.__name__]  # and none of the interpreter's own operations

    monkeypatch.setattr(GridExecutor, "__call__", watched)
    shape, layer = shape_of(6, 2), layer_of(kernels, 6)
    x, scores, out = torch.ones(3, HIDDEN), torch.ones(3, 6), torch.empty(3, HIDDEN)
    plain = Routes(torch.zeros(3, 2, dtype=torch.int64), torch.ones(3, 2))
    for routed in (lambda: KernelRouting(kernels)(scores, shape), lambda: plain):
        names.clear()
        with Operations(names):
            layer.apply(x, routed(), room(6), out)
        products = ["_dequantised_gemm", "_gate_mul", "_dequantised_gemm"]
        assert names == ["_route", "index_select", *products, "_weighted_sum"]


class Watched(Reference):
    """The reference, which counts what it is asked to route and to sort."""

    def __init__(self) -> None:
        self.routed = self.sorted = 0

    def route(self, scores, rule):
        self.routed += 1
        return super().route(scores, rule)

    def sort_choices(self, chosen, experts):
        self.sorted += 1
        return super().sort_choices(chosen, experts)


@pytest.mark.parametrize("routing", [trained, Threshold(0.01)])
def test_the_network_takes_it_for_what_was_trained_alone(routing, model_dir) -> None:
    """Each choice is sorted once, whoever made it."""
    path = model_dir("mixtral")
    plan = plan_load(EngineConfig(path, self_check="never", kernels="reference"))
    shape, kernels = plan.shape, Watched()
    assert isinstance(shape, DecoderShape)
    weights = read_weights(shape, path, plan.dtype, plan.device)
    backend = LinearBackend(plan.dtype, plan.device, kernels)
    network = build_network(shape, weights, kernels, backend)
    assert isinstance(network, TorchNetwork)
    network.routing = routing
    network_logits(network, kv_layout(plan, shape), shape.heads, shape.vocabulary)
    layers_of_steps = 3 * shape.layers
    assert kernels.sorted == layers_of_steps
    assert kernels.routed == (layers_of_steps if routing is trained else 0)

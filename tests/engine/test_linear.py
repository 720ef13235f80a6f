"""The linear door: every way to keep a matrix gives the same product."""

import pytest
import torch

from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.quantisation import quantised
from agentrt.engine.ops import linear
from agentrt.engine.ops.experts import NativeExperts, SortedExperts
from agentrt.engine.ops.linear import DenseLinear, LinearBackend, PackedLinear
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels import load
from agentrt_kernels.contract import SILU, KernelsUnavailable
from agentrt_kernels.cpu.experts import ExpertMatrices

CPU = torch.device("cpu")


def some(*size):
    source = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=source)


def native():
    try:
        return load("cpu")
    except KernelsUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def unpacked():
    """Forgets, before and after, what was found out about packing."""
    linear.packing_fault.cache_clear()
    yield
    linear.packing_fault.cache_clear()


@pytest.mark.parametrize("rows", [0, 1, 5, 70])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kernels", ["torch", "cpu"])
def test_every_way_gives_the_same_product(kernels, dtype, biased, rows):
    weight, bias, x = some(33, 24), some(33) if biased else None, some(rows, 24)
    backend = LinearBackend(dtype, CPU, TorchKernels() if kernels == "torch" else native())
    ready = backend.linear(weight.to(dtype), None if bias is None else bias.to(dtype))
    room = torch.empty((rows, 33), dtype=dtype)
    with torch.inference_mode():
        made, in_room = ready.apply(x.to(dtype)), ready.apply(x.to(dtype), room)
    expected = torch.nn.functional.linear(x.to(dtype).float(), weight.to(dtype).float(), bias)
    apart = 1e-1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(made.float(), expected, rtol=apart / 5, atol=apart)
    torch.testing.assert_close(in_room, made)


def door(kernels):
    return LinearBackend(torch.float32, CPU, kernels)


def test_who_chooses_what():
    plain = TorchKernels()
    assert LinearBackend(torch.float32, CPU, native()).choice == "native"
    assert LinearBackend(torch.float32, CPU, plain).choice == "plain"
    assert LinearBackend(torch.bfloat16, torch.device("cuda"), plain).choice == "plain"
    experts = [ExpertMatrices(some(6, 4), None, some(4, 3), None)]
    assert isinstance(door(native()).experts(experts, SILU), NativeExperts)
    for others in (plain, load("reference")):
        assert isinstance(door(others).experts(experts, SILU), SortedExperts)


@pytest.mark.parametrize("kernels", [TorchKernels(), load("reference")], ids=lambda one: one.name)
def test_quantised_experts_stay_so(kernels):
    """A projection may be plain beside another that is not."""
    packed = [quantised(some(6, 4), 8, 0) for _ in range(2)]
    experts = [ExpertMatrices(one, None, some(4, 3), None) for one in packed]
    made = door(kernels)
    assert isinstance(made.experts(experts, SILU), SortedExperts)
    assert made.quantised_bytes == sum(one.resident_bytes for one in packed)


def test_experts_of_which_some_are_quantised_are_refused_in_groups():
    experts = [
        ExpertMatrices(one, None, some(4, 3), None)
        for one in (quantised(some(6, 4), 8, 0), some(6, 4))
    ]
    with pytest.raises(EngineUnavailable, match="some of a layer's experts are quantised"):
        door(load("reference")).experts(experts, SILU)


def test_bf16_is_packed_where_torch_can(unpacked):
    door = LinearBackend(torch.bfloat16, CPU, TorchKernels())
    if linear.packing_fault() is None:
        assert door.choice == "packed"
        assert isinstance(door.linear(some(8, 8).bfloat16()), PackedLinear)
    else:
        assert door.choice == "plain"


class Gone:
    """oneDNN's operations in a torch that has none."""

    def __getattr__(self, name):
        raise AttributeError(f"no operation {name}")


class Wrong:
    """oneDNN's operations in a torch where they mean something else."""

    class _linear_pointwise:
        @staticmethod
        def default(x, weight, bias, *_):
            return x @ weight.t() * 2

    @staticmethod
    def _is_mkldnn_bf16_supported():
        return True

    @staticmethod
    def _reorder_linear_weight(weight):
        return weight


@pytest.mark.parametrize(
    ("operations", "says"),
    [(Gone(), "does not pack: no operation"), (Wrong(), "packed products are wrong")],
)
def test_private_operations_are_tried_out_first(operations, says, unpacked, monkeypatch):
    monkeypatch.setattr(linear, "_onednn", lambda: operations)
    door = LinearBackend(torch.bfloat16, CPU, TorchKernels())
    assert door.choice == "plain"
    assert says in door.reason
    assert isinstance(door.linear(some(8, 8).bfloat16()), DenseLinear)

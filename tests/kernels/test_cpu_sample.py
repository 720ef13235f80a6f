"""The native sampler against the reference: the same token for the same number, whatever is cut.

Sums are of fp64 here and there, but not in the same order: a number within some 1e-13 of the border
between two tokens may find the other one. The numbers here keep clear of that.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.reference import Reference


def flat(normal):
    return normal / 10


def peaked(normal):
    peaks = 3 * normal
    peaks[:, -1] += 24
    return peaks


def tied(normal):
    return (2 * normal).round()


def equal(normal):
    return torch.zeros_like(normal)


def hidden(normal):
    """Minus infinity for most, as masks of their own leave it."""
    return torch.where(normal > 1, normal, -torch.inf)


def crowded(normal):
    """All but one in a narrow crowd far below it: one slice of the whole range holds them."""
    crowd = -38 + 1e-5 * normal
    crowd[:, 0] = 0
    return crowd


def close(normal):
    """Neighbours in fp32, which their distance from a larger one does not tell apart."""
    bits = torch.full_like(normal, 0.01).view(torch.int32) + (40 * normal).int()
    values = bits.view(torch.float32).clone()
    values[:, 0] = 7
    return values


def nested(normal):
    """Each power of two as many: slices of slices of slices."""
    return -torch.exp2(-(12 * normal.abs()).round() % 120)


SHAPES = [flat, peaked, tied, equal, hidden, crowded, close, nested]
DTYPES = {
    "temperature": torch.float32,
    "top_k": torch.int32,
    "top_p": torch.float32,
    "min_p": torch.float32,
    "uniform": torch.float64,
}

how = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.3, 1.0, 1.0, 2.5]),
        "top_k": st.sampled_from([0, 0, 1, 5, 80, 700, 10_000]),
        "top_p": st.sampled_from([1.0, 1.0, 0.05, 0.6, 0.95, 1e-6]),
        "min_p": st.sampled_from([0.0, 0.0, 0.02, 0.5, 1.0]),
        "uniform": st.integers(0, 2**24 - 1).map(lambda at: (at + 0.37) / 2**24),
    }
)


def drawn(one, logits, mask, rows):
    out = torch.full((len(rows),), -1, dtype=torch.int64)
    columns = [
        torch.tensor([row[name] for row in rows], dtype=dtype) for name, dtype in DTYPES.items()
    ]
    one.sample(logits.clone(), mask, *columns, out)
    return out.tolist()


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    rows=st.lists(how, min_size=1, max_size=5),
    tokens=st.sampled_from([1, 16, 33, 500, 3000]),
    shape=st.sampled_from(SHAPES),
    masked=st.booleans(),
    seed=st.integers(0, 99),
)
def check_sample(kernels, rows, tokens, shape, masked, seed):
    source = torch.Generator().manual_seed(seed)
    normal = torch.randn(len(rows), tokens + 3, generator=source)
    logits = shape(normal)[:, :tokens]
    mask = None
    if masked:
        mask = torch.randint(-(2**31), 2**31, (len(rows), -(-tokens // 32)), generator=source)
        mask = (mask & torch.randint(-(2**31), 2**31, mask.shape, generator=source)).int()
        mask[:, 0] |= 1
        logits[:, 0].clamp_(min=-9)  # one may always come
    logits[:, 0].nan_to_num_(neginf=-9)
    assert drawn(kernels, logits, mask, rows) == drawn(Reference(), logits, mask, rows)


def test_tokens_are_drawn_as_the_reference_draws(kernels):
    check_sample(kernels)


def test_tokens_are_drawn_the_same_on_other_processors(level_library):
    check_sample(CpuKernels(1, level_library))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "cut", [{}, {"top_k": 700}, {"top_p": 0.9}, {"min_p": 0.3}, {"top_k": 900, "top_p": 0.7}]
)
def test_every_number_finds_its_token(kernels, shape, cut):
    """Sixty numbers over one distribution: what is kept, and where each token begins."""
    normal = torch.randn(1, 2000, generator=torch.Generator().manual_seed(5))
    logits = shape(normal)
    uncut = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    rows = [{**uncut, **cut, "uniform": (at + 0.37) / 60} for at in range(60)]
    rows += [{**rows[0], "uniform": 0.0}, {**rows[0], "uniform": 1 - 2**-30}]
    logits = logits.expand(len(rows), -1)
    assert drawn(kernels, logits, None, rows) == drawn(Reference(), logits, None, rows)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_with_a_nan_gives_no_token(temperature, kernels):
    logits = torch.zeros(3, 70)
    logits[[0, 2], 60] = torch.nan
    logits[1, 61] = torch.inf
    mask = torch.full((3, 3), -1, dtype=torch.int32)
    mask[2, 1] = 0  # what may not come does not matter
    cuts = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "uniform": 0.0}
    rows = [{"temperature": temperature, **cuts}] * 3
    assert drawn(kernels, logits, mask, rows)[:2] == [-1, 61]
    assert drawn(kernels, logits, mask, rows)[2] == 0

"""Bytes of FP8 in the native set: each is read and written as torch does, subnormal ones too."""

import pytest
import torch

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.kv_codes import SCALE_DTYPE
from agentrt_kernels.reference import Reference

E4M3 = torch.float8_e4m3fn
DTYPES = [torch.float32, torch.bfloat16]


def every_code():
    """All bytes of FP8 that are numbers, and two zeros: `[256]`."""
    codes = torch.arange(256, dtype=torch.uint8).view(E4M3)
    return torch.where(codes.float().isfinite(), codes.float(), 0.0).to(E4M3)


def history_of(codes):
    """Tokens `[T, D]` as keys and values of one head in one page, with scales of 1, and a row."""
    pages = codes[None].repeat(2, 1, 1)[None, :, :, None]  # [1, 2, T, 1, D]
    scales = torch.ones(1, 2, 1, codes.shape[0], dtype=SCALE_DTYPE)
    start, table = torch.tensor([0, 1]), torch.zeros(1, 1)
    tokens = torch.tensor([codes.shape[0]])
    rows = PagedRows(start.int(), tokens.int(), table.int(), 1, codes.shape[0])
    return pages, rows, scales


def check_read(kernels, dtype):
    """Behind a context of one token an output is its value, whatever the score."""
    for codes in every_code().view(2, 1, 128):
        pages, rows, scales = history_of(codes)
        out = torch.empty(1, 1, 128, dtype=dtype)
        kernels.attend(torch.zeros(1, 1, 128, dtype=dtype), pages, rows, Score(1.0), out, scales)
        assert torch.equal(out[0], codes.to(dtype))


def check_scored(kernels, dtype, dim):
    """Keys of any bytes, each token with one of its own."""
    codes = every_code()[torch.randperm(256, generator=torch.Generator().manual_seed(dim))]
    pages, rows, scales = history_of(torch.stack([codes.roll(at)[:dim] for at in range(60)]))
    query = torch.randn(1, 2, dim, generator=torch.Generator().manual_seed(1)).to(dtype)
    found, expected = torch.empty_like(query), torch.empty_like(query)
    for one, out in ((kernels, found), (Reference(), expected)):
        one.attend(query, pages, rows, Score(2e-3), out, scales)
    assert (found - expected).float().norm() < 1e-2 * expected.float().norm()


def check_written(kernels):
    """Also what lies in the middle of two codes, and beside it."""
    exact = every_code().float().unique()
    middles = (exact[1:] + exact[:-1]) / 2
    values = torch.cat([exact, middles, middles * (1 + 2**-20), middles * (1 - 2**-20)])
    values = torch.nn.functional.pad(values, (0, -len(values) % 15)).view(-1, 15)
    values = torch.nn.functional.pad(values, (0, 1), value=448.0)  # so that a step is 1
    count = len(values)
    qkv = torch.stack([torch.ones_like(values)] * 2 + [values], 1)
    stored = []
    for one in (kernels, Reference()):
        pages = torch.zeros(count, 2, 1, 1, 16, dtype=E4M3)
        scales = torch.zeros(count, 2, 1, 1, dtype=SCALE_DTYPE)
        at, angles = torch.arange(count), torch.zeros(count, 16)
        one.rope_store(qkv, at, angles, at, None, pages, torch.empty(count, 1, 16), scales)
        stored.append((pages[:, 1].view(torch.int8), scales[:, 1]))
    assert torch.equal(stored[0][0], stored[1][0])
    assert torch.equal(stored[0][0].flatten(1), values.to(E4M3).view(torch.int8))
    torch.testing.assert_close(stored[0][1], stored[1][1], rtol=2**-7, atol=0)


def check_all(kernels):
    for dtype in DTYPES:
        check_read(kernels, dtype)
        for dim in (8, 64, 80, 128):
            check_scored(kernels, dtype, dim)
    check_written(kernels)


def test_every_byte_is_read_and_written(kernels):
    check_all(kernels)


def test_lesser_processors_read_and_write_the_same(level_library):
    check_all(CpuKernels(1, level_library))


def test_it_is_the_same_by_either_product(other_dot):
    check_all(CpuKernels(1, other_dot))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_checks_see_a_code_that_is_read_wrong(kernels, dtype):
    class Wrong:
        def attend(self, query, pages, rows, score, out, scales):
            pages = torch.where(pages.float().abs() < 2**-6, 0.0, pages.float()).to(E4M3)
            kernels.attend(query, pages, rows, score, out, scales)

    with pytest.raises(AssertionError):
        check_read(Wrong(), dtype)

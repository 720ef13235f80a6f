"""Bytes of FP8 in Triton: each is read and written as torch does, under the interpreter."""

import pytest
import torch


@pytest.fixture
def every_code() -> torch.Tensor:
    """All bytes of FP8 that are numbers."""
    codes = torch.arange(256, dtype=torch.uint8).view(torch.int8)
    return codes[codes.view(torch.float8_e4m3fn).float().isfinite()]


@pytest.fixture
def e4m3_kernels(interpreted):
    from tests.kernels import e4m3_kernels

    return e4m3_kernels


@pytest.mark.parametrize("is_native", [False, True])
def test_every_byte_is_the_value_that_torch_reads(e4m3_kernels, every_code, is_native) -> None:
    found = torch.empty(len(every_code))
    e4m3_kernels.read[(1,)](every_code, found, NATIVE=is_native, COUNT=len(every_code))
    assert torch.equal(found, every_code.view(torch.float8_e4m3fn).float())


def test_every_value_is_written_as_torch_does(e4m3_kernels, every_code) -> None:
    """Also those in the middle of two codes, and beside it."""
    exact = every_code.view(torch.float8_e4m3fn).float().unique()
    middles = (exact[1:] + exact[:-1]) / 2
    values = torch.cat([exact, middles, middles * (1 + 2**-20), middles * (1 - 2**-20)])
    assert len(values) <= 1024
    found = torch.empty(len(values), dtype=torch.int8)
    e4m3_kernels.write[(1,)](values, found, COUNT=len(values))
    assert torch.equal(found, values.to(torch.float8_e4m3fn).view(torch.int8))

"""Which prompts go to the kernel for Hopper, whose results only such a device can show."""

from dataclasses import replace

import pytest
import torch

from agentrt_kernels.check.batch import Attention, Batch, batch_of

hopper_extend = pytest.importorskip(
    "agentrt_kernels.triton.hopper_extend", reason="needs triton and its Gluon"
)

PROMPT = Attention((900, 0), (200, 1), 8, 2, 128, dtype=torch.bfloat16)


def is_taken(case: Attention, capability: int = 90) -> bool:
    return takes(batch_of(case, torch.device("cpu")), capability)


def takes(batch: Batch, capability: int = 90) -> bool:
    operands = batch.query, batch.layer_pages, batch.rows, batch.score
    taken = hopper_extend.fits(*operands, capability)
    assert isinstance(taken, bool)
    return taken


@pytest.mark.parametrize(
    "case",
    [
        PROMPT,
        replace(PROMPT, dtype=torch.float16),
        replace(PROMPT, heads=7, kv_heads=1),
        replace(PROMPT, page=128),
        replace(PROMPT, before=(496, 0), rows=(32, 1)),  # as few as fill its tiles
    ],
)
def test_prompts_of_wide_heads_are_taken(case) -> None:
    assert is_taken(case)


@pytest.mark.parametrize(
    "case",
    [
        replace(PROMPT, width=64),
        replace(PROMPT, dtype=torch.float32),
        replace(PROMPT, page=4),
        replace(PROMPT, window=64),
        replace(PROMPT, softcap=30.0),
        replace(PROMPT, sinks=True),
        replace(PROMPT, rows=(31, 1)),
        replace(PROMPT, before=(0, 0)),
    ],
)
def test_other_prompts_are_left_to_the_kernel_for_all_devices(case) -> None:
    assert not is_taken(case)


@pytest.mark.parametrize("capability", [0, 80, 89, 100])
def test_other_devices_are_left_out(capability) -> None:
    """Newer ones have lost the instructions that it is made of."""
    assert not is_taken(PROMPT, capability)


def test_heads_that_do_not_lie_side_by_side_are_left_out() -> None:
    """As a layer's pages are when heads are the outer dimension: no row of a matrix is a token."""
    batch = batch_of(PROMPT, torch.device("cpu"))
    assert takes(batch)
    turned = batch.layer_pages.transpose(2, 3).contiguous().transpose(2, 3)
    assert not takes(replace_pages(batch, turned))


def replace_pages(batch: Batch, pages: torch.Tensor) -> Batch:
    return Batch(batch.query, pages, batch.rows, batch.score)

"""Tokens of the Triton set are the reference's, whatever the cuts, the ties and the mask."""

import pytest
import torch

from agentrt_kernels.check.difference import sample
from agentrt_kernels.reference import Reference

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("rows", "vocabulary", "grain"),
    [
        pytest.param(6, 100, None, id="small"),
        pytest.param(6, 70, 1.5, id="many equals"),
        pytest.param(2, 5000, 0.5, id="two chunks, many equals"),
    ],
)
def test_tokens_are_the_references(interpreted, rows, vocabulary, grain) -> None:
    assert sample(interpreted, rows, vocabulary, CPU, grain=grain) == 0


def drawn(kernels, logits: list[float], uniforms: list[float], **how: float) -> list[int]:
    rows = len(uniforms)
    out = torch.empty(rows, dtype=torch.int64)
    kernels.sample(
        torch.tensor([logits] * rows),
        None,
        torch.full((rows,), how.get("temperature", 1.0)),
        torch.full((rows,), int(how.get("top_k", 0)), dtype=torch.int32),
        torch.full((rows,), how.get("top_p", 1.0)),
        torch.full((rows,), how.get("min_p", 0.0)),
        torch.tensor(uniforms, dtype=torch.float64),
        out,
    )
    return out.tolist()


@pytest.mark.parametrize(
    ("logits", "how"),
    [
        pytest.param([0.0] * 20, {"top_k": 3}, id="all equal, top-k"),
        pytest.param([0.0] * 20, {"top_p": 0.5}, id="all equal, top-p"),
        pytest.param([5.0, -60.0, 5.0, 4.0], {}, id="what is negligible never comes"),
        pytest.param([-0.0, 0.0, -1.0], {"top_k": 2}, id="minus zero equals zero"),
        pytest.param([-3.0, -2.0, -2.0, 1e30], {"top_p": 0.0}, id="top-p of nothing keeps one"),
        pytest.param([1.0, 1.0, 0.5], {"min_p": 1.0}, id="min-p of all keeps equals"),
        pytest.param([1.0, 2.0], {"top_k": 99}, id="top-k of more than there are"),
    ],
)
def test_edges(interpreted, logits, how) -> None:
    uniforms = [0.0, 0.37, 1 - 2**-40]
    assert drawn(interpreted, logits, uniforms, **how) == drawn(
        Reference(), logits, uniforms, **how
    )


def test_a_row_that_may_say_nothing_says_something_valid(interpreted) -> None:
    """Padding of a captured graph may be anything; the kernel ends and names a token."""
    out = torch.full((1,), -1, dtype=torch.int64)
    one = torch.ones(1)
    mask = torch.zeros(1, 1, dtype=torch.int32)
    interpreted.sample(torch.zeros(1, 7), mask, one, one.int(), one, 0 * one, 0 * one.double(), out)
    assert 0 <= int(out) < 7


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("at", [3, 4999])
def test_a_row_with_a_nan_gives_no_token(interpreted, temperature, at) -> None:
    """In whichever chunk it is, whatever is in the other."""
    logits = [0.0] * 5000
    logits[at], logits[70] = float("nan"), float("inf")
    assert drawn(interpreted, logits, [0.5], temperature=temperature) == [-1]

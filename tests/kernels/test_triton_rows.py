"""Operations on rows, pages and experts of the Triton set against the reference."""

import pytest
import torch

from agentrt_kernels.check import difference
from agentrt_kernels.kv_codes import CODE_DTYPES

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [1, 24, 1025])
def test_norms(interpreted, width: int, dtype: torch.dtype) -> None:
    assert difference.norms(interpreted, 3, width, dtype, CPU) <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [5, 1030])
def test_gate_mul(interpreted, width: int, dtype: torch.dtype) -> None:
    assert difference.gate_mul(interpreted, 3, width, dtype, CPU) <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("heads", "norms", "page"),
    [
        pytest.param((4, 2, 16), "alike", 16, id="normed"),
        pytest.param((7, 1, 6), "none", 3, id="odd heads, odd page"),
        pytest.param((1, 1, 40), "alike", 1, id="pages of one token"),
        pytest.param((6, 3, 12), "own", 16, id="weights of each head"),
    ],
)
def test_rope_store(interpreted, heads, norms, page: int, dtype: torch.dtype) -> None:
    made = difference.rope_store(interpreted, 4, heads, dtype, CPU, norms=norms, page=page)
    assert made <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("codes", CODE_DTYPES.values(), ids=str)
@pytest.mark.parametrize("heads", [(4, 2, 16), (7, 1, 6), (6, 3, 40)])
def test_rope_store_into_codes(interpreted, heads, codes, dtype: torch.dtype) -> None:
    assert difference.rope_store_codes(interpreted, 5, heads, dtype, CPU, codes) <= 1


@pytest.mark.parametrize("values", [6, 2050])
def test_copy_pages(interpreted, values: int) -> None:
    assert difference.copy_pages(interpreted, 5, values, torch.bfloat16, CPU) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("sizes", "outputs", "width"),
    [
        pytest.param((3, 0, 20, 1), 20, 40, id="several blocks of rows, one expert idle"),
        pytest.param((0, 0, 2), 3, 17, id="leading experts idle"),
    ],
)
def test_grouped_linear(interpreted, sizes, outputs: int, width: int, dtype: torch.dtype) -> None:
    assert difference.grouped_linear(interpreted, sizes, outputs, width, dtype, CPU) <= 1


def test_nothing_to_do_is_done(interpreted) -> None:
    """No rows, no pairs: nothing is launched."""
    none = torch.empty(0, 8)
    interpreted.rms_norm(none, torch.ones(8), 1e-6, none)
    interpreted.gate_mul(none, torch.empty(0, 4))
    interpreted.copy_pages(torch.ones(1, 8), none, torch.empty(0, 2, dtype=torch.int64))
    interpreted.grouped_linear(none, torch.ones(2, 3, 8), torch.zeros(3).int(), torch.empty(0, 3))

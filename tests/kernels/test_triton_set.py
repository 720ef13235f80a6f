"""What the set does around its kernels: no wait for the device, no memory after the first call."""

from dataclasses import replace

import pytest
import torch

from agentrt_kernels.check.batch import Attention, batch_of
from agentrt_kernels.check.stored import stored
from agentrt_kernels.routes import RouteRule

CPU = torch.device("cpu")
WAITS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero", "numpy")


def call_all(kernels, made, row, logits, mask, out, weight, start) -> None:
    kernels.attend(made.query, made.layer_pages, made.rows, made.score, made.out)
    kernels.add_rms_norm(row, row, row[0], 1e-6, row)
    kernels.gate_mul(row, row[:, :8])
    kernels.copy_pages(row, row, out[:, None].expand(2, 2).contiguous())
    kernels.grouped_linear(row, weight, start, row[:, :3])
    routes = kernels.route(row, RouteRule(2, True, True))
    kernels.sum_choices(row.repeat(2, 1), routes.order, routes.shares, row)
    one = logits[:, 0]
    kernels.sample(logits, mask, one, mask[:, 0], one, one, one.double(), out)


def test_no_operation_reads_a_value_back(interpreted, monkeypatch) -> None:
    """A captured graph could not hold one that does: grids and shares follow from bounds alone."""
    from triton.runtime.interpreter import GridExecutor

    from agentrt_kernels.triton.blocks import Table
    from agentrt_kernels.triton.set import TritonKernels

    made = batch_of(Attention((150, 150, 3), (1, 1, 1), 2, 1, 16, groups=(((0, 1), 144),)), CPU)
    row = torch.ones(2, 16)
    logits, mask, out = torch.ones(2, 32), torch.full((2, 1), 5).int(), torch.zeros(2).long()
    weight, start = torch.ones(2, 3, 16), torch.tensor([0, 1, 2]).int()

    kinds = ("int4 reordered", "nf4", "fp8 by fp8")
    wide = torch.ones(2, 1024)
    sharing = TritonKernels(Table(), programs=64)
    linears = [sharing.pack_codes(stored(kind, 9, 1024, CPU)) for kind in kinds]
    experts = [interpreted.pack_expert_codes([stored(kind, 9, 1024, CPU)] * 2) for kind in kinds]

    def refuse(self, *args):
        raise AssertionError("a tensor's value was asked for")

    for name in WAITS:
        monkeypatch.setattr(torch.Tensor, name, refuse)
    called: list[str] = []  # launches are noted, and nothing runs
    monkeypatch.setattr(
        GridExecutor, "__call__", lambda self, *args, **how: called.append(self.fn.__name__)
    )
    call_all(interpreted, made, row, logits, mask, out, weight, start)
    assert len(set(called)) == 13
    for linear in linears:
        linear.apply(wide)
    for one in experts:
        one.apply(wide, start, torch.empty(2, 9))
    assert len(set(called)) == 17


def test_scratch_is_made_once(interpreted) -> None:
    """The same bounds take the same memory, smaller ones too; larger ones leave it in place."""
    from agentrt_kernels.triton.workspace import Workspace

    workspace = Workspace(CPU)
    first = workspace.take("values", (3, 1000), torch.float32)
    assert workspace.take("values", (2, 1500), torch.float32).data_ptr() == first.data_ptr()
    larger = workspace.take("values", (5, 1000), torch.float32)
    assert larger.shape == (5, 1000)
    assert larger.data_ptr() != first.data_ptr()
    assert workspace.take("values", (3, 1000), torch.float32).data_ptr() == first.data_ptr()
    assert workspace.take("others", (3, 1000), torch.float32).data_ptr() != first.data_ptr()


@pytest.mark.parametrize(
    ("histories", "tokens", "shares"),
    [
        pytest.param(8, 100, 1, id="a short history is not split"),
        pytest.param(8, 1024, 8, id="no share of under 128 tokens"),
        pytest.param(8, 2**20, 64, id="never more than the merge takes"),
        pytest.param(256, 1024, 4, id="as many as fill the device"),
        pytest.param(5000, 2**20, 1, id="which many sequences do alone"),
    ],
)
@pytest.mark.usefixtures("interpreted")
def test_shares_fill_the_device(histories: int, tokens: int, shares: int) -> None:
    from agentrt_kernels.triton.set import _shares

    assert _shares(histories, tokens, room=8 * 132) == shares


def test_partial_results_are_less_than_what_sharing_saves(interpreted, monkeypatch) -> None:
    """64 siblings over 8,192 tokens, Llama-3.1-8B's heads: shares of the prefix are few."""
    from agentrt_kernels.contract import PagedRows, SharedPrefix
    from agentrt_kernels.triton import set as chosen

    monkeypatch.setattr(chosen, "_multiprocessors", lambda device: 132)
    whole = torch.zeros(64, dtype=torch.int32)
    table = torch.zeros(64, 544, dtype=torch.int32)
    prefix = SharedPrefix(whole[:2], whole, whole[:1], table[:1, :512], 64)
    rows = PagedRows(whole, whole, table, 1, 8704, prefix)
    query = torch.empty(64, 32, 128, dtype=torch.bfloat16)
    pages = torch.empty(1, 2, 16, 8, 128, dtype=torch.bfloat16)
    made = chosen.TritonKernels()._partials(query, pages, rows, 1)
    saved_bytes = 63 * 8192 * 2 * 8 * 128 * 2
    assert 2 * made.values.nbytes < saved_bytes / 50


def test_shares_depend_on_bounds_not_on_lengths(interpreted) -> None:
    """Two batches of equal bounds are launched alike, so that one graph serves both."""
    made = batch_of(Attention((150, 600, 3), (1, 1, 1), 2, 1, 16), CPU)
    short = replace(made.rows, kv_tokens=made.rows.kv_tokens // 10 + 1)
    taken = [
        interpreted._partials(made.query, made.layer_pages, rows, 1) for rows in (made.rows, short)
    ]
    assert taken[0].own == taken[1].own > 1
    assert taken[0].values.data_ptr() == taken[1].values.data_ptr()

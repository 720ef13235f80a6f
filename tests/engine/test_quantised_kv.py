"""KV in codes of eight bits: what it takes, what it changes, and who computes with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.batch.batch import pack
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout, pages_for
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.models.report import model_report
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt_kernels.kv_codes import CODE_DTYPES, decode_heads, encode_heads

CPU = torch.device("cpu")
CODES = list(CODE_DTYPES.values())
LAYOUT = KvLayout(3, 2, 4, 5, torch.float32, CPU)
FAULTS = {torch.int8: 0.7e-2, torch.float8_e4m3fn: 2.4e-2}
"""How far logits of the embedded model may move, as a share of them."""


@pytest.mark.parametrize(
    ("head_dim", "dtype", "gain"),
    [
        (64, torch.bfloat16, 128 / 66),
        (128, torch.bfloat16, 256 / 130),
        (256, torch.bfloat16, 512 / 258),
        (64, torch.float32, 256 / 66),
    ],
)
@pytest.mark.parametrize("codes", CODES)
def test_the_same_bytes_hold_nearly_twice_the_tokens(head_dim, dtype, gain, codes):
    """A value takes one byte in place of two, and each head of a token two bytes for its scale."""
    plain = KvLayout(28, 8, head_dim, 16, dtype, CPU)
    sizes = {"kv_pages": 0, "kv_bytes": 1 << 30, "max_tokens": 0}
    held = pages_for(replace(plain, codes=codes), **sizes)
    assert held == pytest.approx(gain * pages_for(plain, **sizes), rel=0.01)
    assert gain > 1.93


def test_the_work_of_a_step_counts_the_same_bytes():
    shape = shape_named("half")
    plain = KvLayout(shape.layers, shape.kv_heads, shape.head_dim, 16, torch.bfloat16, CPU)
    for kept, codes in (("auto", None), *CODE_DTYPES.items()):
        token_bytes = replace(plain, codes=codes).page_bytes / 16
        assert shape.kv_bytes_a_token("bfloat16", kept) == token_bytes


@pytest.mark.parametrize(("page", "heads", "head_dim"), [(16, 8, 64), (5, 1, 3), (1, 1, 1)])
@pytest.mark.parametrize("codes", CODES)
def test_memory_is_what_the_layout_says(page, heads, head_dim, codes):
    layout = KvLayout(2, heads, head_dim, page, torch.bfloat16, CPU, codes)
    kv = KvCache(layout, 4)
    assert kv.stored.nbytes == 4 * layout.page_bytes
    assert kv.stored.is_contiguous()
    assert kv.memory.shape == (4, 2, 2, page, heads, head_dim)
    assert kv.scales is not None
    assert kv.scales.shape == (4, 2, 2, heads, page)
    assert kv.memory.dtype is codes
    kv.memory.fill_(3)
    kv.scales.fill_(1.0)
    assert (kv.memory.float() == 3).all(), "codes and scales do not overlap"
    assert (kv.scales == 1.0).all()


@pytest.mark.parametrize("kind", CODES)
def test_what_is_written_is_read_from_its_page(kind):
    kv = KvCache(replace(LAYOUT, codes=kind), 7)
    tables = BlockTables(2, 4, kv)
    tables.write(1, 0, [PageId(5), PageId(2), PageId(6)])
    part = SequenceSlice(slot=1, token_ids=[0] * 9, first_position=3, wants_logits=True)
    batch = pack([part], kv, tables)
    key = torch.randn(9, 8, generator=torch.Generator().manual_seed(1))
    kv.write(1, batch.kv_rows, key, 2 * key)
    codes = [torch.empty(3, kv.stored.shape[-1], dtype=torch.int8) for _ in range(2)]
    kv.read(1, tables.block_offsets[1, :3], *codes)
    found, doubled = torch.empty(3, 40), torch.empty(3, 40)
    kv.widen(codes[0], found)
    kv.widen(codes[1], doubled)
    expected = decode_heads(*encode_heads(key.view(9, 2, 4), kind)).view(9, 8)
    assert torch.equal(found.view(15, 8)[3:12], expected)
    assert torch.equal(doubled, 2 * found)
    assert kv.stored[:, 0].count_nonzero() == kv.stored[:, 2].count_nonzero() == 0


@pytest.mark.parametrize("kind", CODES)
def test_a_page_is_copied_with_its_scales(kind):
    kv = KvCache(replace(LAYOUT, codes=kind), 3)
    assert kv.scales is not None
    kv.stored[1] = torch.randint(-100, 100, kv.stored[1].shape, dtype=torch.int8)
    kv.copy_page(PageId(1), PageId(2))
    assert torch.equal(kv.memory[2].view(torch.int8), kv.memory[1].view(torch.int8))
    assert torch.equal(kv.scales[2].view(torch.int16), kv.scales[1].view(torch.int16))
    assert not kv.stored[0].any()


def logits_of(kind, model_dir, *, codes, **fields):
    path = embedded.path() if kind == "embedded" else model_dir(kind)
    plan = plan_load(EngineConfig(path, self_check="never", **fields))
    model = load_model(plan.config)
    kernels = None if plan.kernels.kernels.name == "torch" else plan.kernels.kernels
    layout = replace(model.layout, codes=codes)
    return network_logits(model.network, layout, model.heads, model.logits_size, kernels)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("codes", CODES)
def test_logits_of_the_embedded_model_move_little(kernels, codes, model_dir):
    """In bfloat16 its own rounding, of as much, comes on top."""
    exact, coded, halves, coded_halves = (
        logits_of("embedded", model_dir, codes=kept, dtype=dtype, kernels=kernels)
        for dtype in ("float32", "bfloat16")
        for kept in (None, codes)
    )

    def apart(logits):
        return float((logits - exact).norm() / exact.norm())

    assert 0 < apart(coded) < FAULTS[codes]
    assert apart(coded_halves) < apart(halves) + FAULTS[codes]


@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "gemma2", "gpt_oss", "gpt_neox"])
@pytest.mark.parametrize("codes", CODES)
def test_every_kernel_set_computes_the_same(kind, codes, model_dir):
    """Also the modules of transformers, and experts, sinks, windows and head norms."""
    native, torch_alone, reference = (
        logits_of(kind, model_dir, codes=codes, dtype="float32", kernels=kernels)
        for kernels in ("auto", "torch", "reference")
    )
    spread = reference.std()
    assert (torch_alone - reference).abs().max() < 0.02 * spread
    assert (native - reference).abs().max() < 0.02 * spread


@pytest.mark.parametrize("name", CODE_DTYPES)
def test_the_report_says_what_a_token_takes(name):
    plain, coded = (
        model_report(EngineConfig(embedded.path(), dtype="bfloat16", kv_cache_dtype=kept))
        for kept in ("auto", name)
    )
    assert (plain.kv_cache, coded.kv_cache) == ("bfloat16", name)
    sizes = load_model(EngineConfig(embedded.path())).layout
    heads = sizes.layers * 2 * sizes.kv_heads
    assert plain.kv_token_bytes == heads * sizes.head_dim * 2
    assert coded.kv_token_bytes == heads * (sizes.head_dim + 2)
    assert coded.kv_tokens_gained == pytest.approx(plain.kv_token_bytes / coded.kv_token_bytes)
    assert plain.kv_tokens_gained == 1.0
    assert f"KV in {name}" in str(coded)
    assert plain.computed_by != coded.computed_by


def test_an_unknown_type_is_refused():
    with pytest.raises(UsageError, match="kv_cache_dtype='int4'") as caught:
        plan_load(EngineConfig(embedded.path(), kv_cache_dtype="int4"))  # type: ignore[arg-type]
    assert caught.value.hint == "Give auto, int8 or fp8"

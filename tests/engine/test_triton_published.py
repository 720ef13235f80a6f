"""Published checkpoints on Triton kernels under the interpreter: dense models and experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.engine.published_formats import WIDE, written
from tests.engine.published_models import logits_of

pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2": WIDE,
    "qwen3_moe": {"hidden_size": 64, "moe_intermediate_size": 64, "head_dim": 16},
}
OFTEN = {
    "qwen2": {"compressed int4 in groups", "gptq int4 reordered", "compressed fp8 in rows", "nf4"},
    "qwen3_moe": {"gptq int4 reordered", "nf4"},
}
PUBLISHED = [
    pytest.param(kind, name, marks=() if name in OFTEN[kind] else pytest.mark.slow)
    for kind in SHAPES
    for name in (
        "compressed int4 in groups",
        "compressed int8 with zeros",
        "gptq int4 reordered",
        "awq",
        "compressed fp8 in rows",
        "nf4",
    )
]


@pytest.fixture
def plain(kind, engine, tmp_path: Path) -> Path:
    engine.save_model(kind, tmp_path / "plain", num_hidden_layers=1, **SHAPES[kind])
    return tmp_path / "plain"


@pytest.mark.parametrize(
    ("kind", "name"),
    [*PUBLISHED, pytest.param("qwen2", "fp8 small blocks", marks=pytest.mark.slow)],
)
def test_published_checkpoints(name, plain) -> None:
    path = written(name, plain)  # which gives the plain one the same values
    expected, _ = logits_of(plain, kernels="reference")
    found, model = logits_of(path, kernels="triton")
    assert (found - expected).norm() <= 1e-3 * expected.norm()
    values = sum(one.numel() for one in load_file(plain / "model.safetensors").values())
    assert 0 < model.network.quantised_bytes < 2 * values


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", ["fp8 blocks", "compressed fp8 in rows"])
def test_rows_in_fp8_multiply_weights_in_fp8(name, plain) -> None:
    path = written(name, plain)
    exact, _ = logits_of(path, kernels="reference")
    expected, _ = logits_of(path, kernels="reference", activations="fp8")
    found, model = logits_of(path, kernels="triton", activations="fp8")
    assert (found - expected).norm() <= 1e-2 * expected.norm()
    assert 2e-3 * exact.norm() < (expected - exact).norm() < 6e-2 * exact.norm()
    assert model.report.linear.endswith(" by fp8")

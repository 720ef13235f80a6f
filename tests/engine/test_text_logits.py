"""Logits and layers of whole texts equal those of transformers, and so do the figures of both."""

import random

import numpy as np
import pytest
import torch

from agentrt.base.config import EngineConfig, LoraAdapter
from agentrt.base.errors import InternalError, UsageError
from agentrt.engine.runner.logit_divergence import score_chunk
from agentrt.engine.runner.text_logits import PIECE_TOKENS, TextRunner
from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable
from tests.engine.conftest import save_model
from tests.engine.lora_checkpoints import merged_model, save_adapter

IDS = [random.Random(3).randrange(256) for _ in range(90)]
FIRST = 40


def kernel_sets():
    try:
        load("cpu")
    except KernelsUnavailable:
        return ["torch"]
    return ["torch", "cpu"]


def runner(path, piece_tokens=PIECE_TOKENS, **settings):
    return TextRunner(EngineConfig(path, threads=1, **settings), len(IDS), piece_tokens)


def theirs(path, adapter=None):
    """Logits `[tokens, vocabulary]` and outputs of the layers `[layers, tokens, width]`."""
    model = merged_model(path, adapter).eval()
    kept = []
    for layer in model.model.layers:
        layer.register_forward_hook(
            lambda _, __, out: kept.append(out[0] if isinstance(out, tuple) else out)
        )
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([IDS]), use_cache=False).logits[0]
    return logits, torch.stack([one.view(len(IDS), -1) for one in kept])


def apart(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("kernels", kernel_sets())
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "granite", "mixtral", "cohere"])
def test_logits_and_layers_are_those_of_transformers(tmp_path, kind, kernels):
    if kind == "granite":
        save_model(kind, tmp_path, residual_multiplier=0.3)
    else:
        save_model(kind, tmp_path)
    logits, layers = theirs(tmp_path)
    pieces = [
        (piece.logits.clone(), piece.layers.clone())
        for piece in runner(tmp_path, 16, kernels=kernels).pieces(IDS, FIRST)
    ]
    rows = slice(FIRST - 1, len(IDS) - 1)
    assert [len(part) for part, _ in pieces] == [16, 16, 16, 2]
    assert apart(torch.cat([part for part, _ in pieces]), logits[rows]) < 1e-4
    found = torch.cat([part for _, part in pieces], dim=1)
    assert found.shape == layers[:, rows].shape
    for number in range(len(layers)):
        assert apart(found[number], layers[number, rows]) < 1e-4, number


@pytest.mark.parametrize("kernels", kernel_sets())
def test_an_adapter_computes_the_text(model_dir, tmp_path, kernels):
    base = model_dir("llama")
    path = save_adapter(base, tmp_path / "tone")
    logits, layers = theirs(base, path)
    tone = LoraAdapter("tone", path)
    (piece,) = runner(base, kernels=kernels, adapters=(tone,)).pieces(IDS, FIRST)
    rows = slice(FIRST - 1, len(IDS) - 1)
    assert apart(piece.logits, logits[rows]) < 1e-4
    assert apart(piece.layers, layers[:, rows]) < 1e-4
    assert apart(theirs(base)[0][rows], logits[rows]) > 0.1
    with pytest.raises(UsageError, match="scored with one adapter"):
        runner(base, adapters=(tone, LoraAdapter("other", path)))


def test_figures_are_those_of_their_formulas(model_dir):
    one, other = runner(model_dir("llama")), runner(model_dir("llama"), dtype="bfloat16")
    shares = []
    for each in (one, other):
        logits = torch.cat([piece.logits.clone() for piece in each.pieces(IDS, FIRST)])
        raised = np.exp(logits.numpy().astype(np.float64)[:, :256])
        shares.append(raised / raised.sum(1, keepdims=True))
    p, q = shares
    score = score_chunk(one, other, IDS, first=FIRST, vocabulary=256)
    drawn = (np.arange(len(IDS) - FIRST), IDS[FIRST:])
    np.testing.assert_allclose(score.loss, -np.log(p[drawn]), rtol=1e-9)
    np.testing.assert_allclose(score.other_loss, -np.log(q[drawn]), rtol=1e-9)
    np.testing.assert_allclose(score.divergence, (p * np.log(p / q)).sum(1), rtol=1e-6)
    np.testing.assert_array_equal(score.same_top, p.argmax(1) == q.argmax(1))
    assert 0 < score.divergence.mean() < 0.1
    assert (np.sqrt(score.layer_errors / score.layer_squares) > 0).all()


def test_a_model_has_no_distance_to_itself(model_dir):
    one, other = runner(model_dir("qwen3")), runner(model_dir("qwen3"))
    score = score_chunk(one, other, IDS, first=FIRST, vocabulary=256)
    assert score.divergence.max() == 0
    assert score.layer_errors.tolist() == [0, 0]
    assert score.same_top.all()
    alone = score_chunk(one, None, IDS, first=FIRST, vocabulary=256)
    assert alone.loss.tolist() == score.loss.tolist()
    assert (len(alone.divergence), len(alone.layer_errors)) == (0, 0)


def test_other_layers_are_not_compared(model_dir):
    one, other = runner(model_dir("llama")), runner(model_dir("gpt2"))
    score = score_chunk(one, other, IDS, first=FIRST, vocabulary=256)
    assert len(score.divergence) == len(IDS) - FIRST
    assert len(score.layer_errors) == 0


def test_a_chunk_fits_the_window(model_dir):
    with pytest.raises(UsageError, match="chunks of 100000 tokens are longer than"):
        TextRunner(EngineConfig(model_dir("llama"), threads=1), 100_000)


def test_what_is_not_a_number_is_no_figure(model_dir):
    one = runner(model_dir("llama"))
    pieces = one.pieces

    def broken(token_ids, first):
        for piece in pieces(token_ids, first):
            piece.logits[0, 0] = torch.nan
            yield piece

    one.pieces = broken
    with pytest.raises(InternalError, match="not numbers"):
        score_chunk(one, None, IDS, first=FIRST, vocabulary=256)

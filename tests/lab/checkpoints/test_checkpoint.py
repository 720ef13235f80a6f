"""A shape's random weights are an ordinary checkpoint directory."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.checkpoints.weights import (
    FIRST_WORD_ID,
    bf16_bytes,
    first_whole_word_id,
    weights_of,
)
from agentrt.prompt import Codec

MICRO = SHAPES["micro"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(MICRO, folder=tmp_path_factory.mktemp("bench"))


def test_the_library_reads_every_tensor(folder: Path) -> None:
    with safe_open(folder / "model.safetensors", "pt") as opened:
        names = set(opened.keys())
        for fact in weights_of(MICRO):
            assert tuple(opened.get_slice(fact.name).get_shape()) == fact.shape
            tensor = opened.get_tensor(fact.name).float()
            assert bool(tensor.isfinite().all())
            assert float(tensor.abs().max()) > 0
        embedding = opened.get_tensor("model.embed_tokens.weight")
    assert names == {fact.name for fact in weights_of(MICRO)}
    whole = first_whole_word_id(MICRO.vocabulary)
    assert not embedding[:whole].any()  # no output ends before its time, or is no whole word
    assert bool(embedding[whole:].any(1).all())


def test_the_codec_knows_every_id(folder: Path) -> None:
    codec = Codec.load(folder)
    assert codec.vocab.size == MICRO.vocabulary
    assert set(codec.vocab.eos_ids) == {codec.vocab.special_ids["<|end|>"]} == {257}
    detokenizer = codec.detokenizer()
    assert detokenizer.feed_ids([FIRST_WORD_ID]) == " a"


@pytest.mark.parametrize("name", ["micro", "tiny", "half", "qwen2.5-0.5b"])
def test_words_are_read_back_as_what_wrote_them(name: str, tmp_path: Path) -> None:
    folder = checkpoint(SHAPES[name], folder=tmp_path, with_weights=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == SHAPES[name].vocabulary
    words = range(FIRST_WORD_ID, SHAPES[name].vocabulary)
    lettered = [word for word in words if (tokenizer.id_to_token(word) or "")[1:].isalpha()]
    assert len(lettered) >= 0.9 * len(words)
    whole = tokenizer.id_to_token(first_whole_word_id(SHAPES[name].vocabulary)) or ""
    assert whole == "\u0120aaa"
    ids = Random(0).choices(lettered, k=500)
    assert tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False).ids == ids


def test_it_is_written_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert checkpoint(MICRO, folder=folder.parent) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert not capsys.readouterr().err


def test_another_seed_is_another_checkpoint(folder: Path) -> None:
    other = checkpoint(MICRO, seed=1, folder=folder.parent)
    assert other != folder
    first, second = ((path / "model.safetensors").read_bytes() for path in (folder, other))
    assert len(first) == len(second)
    assert first != second


def test_bf16_rounds_to_the_nearest_even() -> None:
    values = np.array([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, -2.5, 1.0 + 2**-8 + 2**-20], np.float32)
    bits = np.frombuffer(bf16_bytes(values), np.uint16).astype(np.uint32) << 16
    assert bits.view(np.float32).tolist() == [1.0, 1.0, 1.0 + 2**-6, -2.5, 1.0 + 2**-7]

"""Keys are spelt as text of an exact number of tokens."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.workloads.text import KeySpeller, words_of


@pytest.fixture(scope="module", params=["micro", "embedded"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "embedded":
        return Path(embedded.path()) / "tokenizer.json"
    folder = tmp_path_factory.mktemp("bench")
    return checkpoint(SHAPES["micro"], folder=folder, with_weights=False) / "tokenizer.json"


def test_a_text_has_as_many_tokens_as_asked_for_wherever_it_stands(tokenizer: Path) -> None:
    spell, reads = KeySpeller(words_of(tokenizer)), Tokenizer.from_file(str(tokenizer))
    for tokens in (1, 7, 300):
        text = spell("a key", tokens) + spell("another", 5)
        assert len(reads.encode(text, add_special_tokens=False).ids) == tokens + 5


def test_equal_keys_are_equal_text_and_others_differ(tokenizer: Path) -> None:
    spell = KeySpeller(words_of(tokenizer))
    assert spell("a key", 40) == spell("a key", 40)
    assert spell("a key", 40) != spell("b key", 40)


def test_a_tokenizer_without_words_is_refused(tmp_path: Path) -> None:
    from tokenizers import models

    path = tmp_path / "tokenizer.json"
    Tokenizer(models.BPE({"a": 0, "b": 1}, [])).save(str(path))
    with pytest.raises(UsageError, match="writes 0 words"):
        words_of(path)

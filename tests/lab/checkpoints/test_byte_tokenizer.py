"""Tokenizers of checkpoints read back what they wrote, and split known texts into few tokens."""

import pytest

from agentrt.lab.checkpoints.byte_tokenizer import trained_tokenizer
from agentrt.lab.checkpoints.weights import first_whole_word_id

SPECIAL = ("<|begin|>", "<|end|>", "<|pad|>")
TEXTS = ["the garden is wet, the bed is dry \u2013 water the bed", "call water, then call dry"] * 3
ODD = 'tabs\t, \u00fcml\u00e4ute, \u2013 \U0001f331 and {"json": [1, 2]}\r\n'


@pytest.mark.parametrize("vocabulary", [300, 512])
def test_ids_are_those_of_bytes_special_tokens_and_words(vocabulary: int) -> None:
    tokenizer = trained_tokenizer(SPECIAL, TEXTS, vocabulary)
    assert tokenizer.get_vocab_size() == vocabulary
    assert [tokenizer.token_to_id(one) for one in SPECIAL] == [256, 257, 258]
    for text in (*TEXTS, ODD):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_known_texts_are_short() -> None:
    tokenizer = trained_tokenizer(SPECIAL, TEXTS, 512)
    assert len(tokenizer.encode(TEXTS[0]).ids) <= 15
    assert len(tokenizer.encode(ODD).ids) > 30


def test_training_is_repeatable() -> None:
    one, other = (trained_tokenizer(SPECIAL, TEXTS, 400) for _ in range(2))
    assert one.to_str() == other.to_str()


def test_parts_of_letters_are_never_put_out() -> None:
    """Rows of ids below that of the first whole word are zero in random weights."""
    tokenizer = trained_tokenizer(SPECIAL, ["\u2013\u2014\u2013\u2014 \u4e00\u4e01" * 9], 512)
    texts = [tokenizer.decode([at], skip_special_tokens=False) for at in range(259, 512)]
    broken = ["\ufffd" in text for text in texts]
    assert any(broken)
    assert broken == sorted(broken, reverse=True)
    assert sum(broken) < first_whole_word_id(512) - 259

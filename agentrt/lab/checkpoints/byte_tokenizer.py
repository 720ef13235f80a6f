"""Byte-level tokenizers of checkpoints: of given words, or trained on texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count, islice

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

_SPACE = "\u0120"  # as byte-level tokenizers write it


def byte_tokenizer(
    special: Sequence[str], words: Sequence[str], merges: Sequence[tuple[str, str]]
) -> Tokenizer:
    """A tokenizer with the ids of bytes first, then of special tokens, then of words.

    Args:
        special: Special tokens.
        words: Further tokens, spelled in the letters of bytes.
        merges: Pairs of tokens in the order in which they are merged.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    first = len(alphabet) + len(special)
    known = {char: at for at, char in enumerate(alphabet)}
    known |= {word: first + at for at, word in enumerate(words)}
    known |= {text: len(alphabet) + at for at, text in enumerate(special)}
    tokenizer = Tokenizer(models.BPE(known, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    return tokenizer


def trained_tokenizer(special: Sequence[str], texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A tokenizer whose words were merged from texts, as those of models are.

    If the texts have fewer words than the vocabulary, the rest are words that no text has. Words
    that are parts of letters come first: random weights of a checkpoint leave those out of outputs.

    Args:
        special: Special tokens.
        texts: Texts.
        vocabulary: Number of all tokens.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    most = vocabulary - len(special)
    trainer = trainers.BpeTrainer(vocab_size=most, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(texts, trainer)
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    merged = dict.fromkeys(one + other for one, other in merges)
    words = sorted(merged, key=partial(_is_text, decoders.ByteLevel()))
    known = set(words)
    others = (word for at in count() if (word := f"{_SPACE}{at}") not in known)
    unused = islice(others, most - len(alphabet) - len(words))
    return byte_tokenizer(special, [*words, *unused], merges)


def _is_text(decoder: decoders.ByteLevel, word: str) -> bool:
    """True if the bytes of a word are whole letters."""
    return "\ufffd" not in decoder.decode([word])

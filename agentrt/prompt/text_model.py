"""The model of a tokenizer for text: its vocabulary and merges, from which no marker can come.

Reading a tokenizer from JSON takes most of a start: its vocabulary is written, read, and written
and read once more for each position. A model of BPE is made of parsed lists instead, once, in half
the time, and all tokenizers share it.
"""

from __future__ import annotations

import json
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

Json = dict[str, Any]

UNSPELLABLE = "\U0010fef5"
"""Prefix that turns a marker's name into one that no text can spell."""

_SETTINGS = frozenset(
    {
        *("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
        *("fuse_unk", "byte_fallback", "ignore_merges"),
    }
)
_PARTS = _SETTINGS | {"type", "vocab", "merges"}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_NOTHING: Json = {"type": "BPE", "vocab": {}, "merges": []}
_VERSION = "#version"
"""Beginning of a line among merges that is none."""


class TextModel:
    """Makes tokenizers of text that have one model.

    Args:
        tokenizer: The parsed `tokenizer.json`.
        added: Added tokens that are text.
        markers: Texts of the other added tokens; no text may become one.
    """

    def __init__(self, tokenizer: Json, added: list[Json], markers: frozenset[str]) -> None:
        model = _without(tokenizer.get("model"), markers)
        self._bpe = None
        if _is_listed(model) and all(set(_FLAGS) < entry.keys() for entry in added):
            settings = {name: model[name] for name in _SETTINGS & model.keys()}
            given = {name: value for name, value in settings.items() if value is not None}
            pairs: Any = _pairs(model["merges"])  # it refuses what are none
            self._bpe = BPE(model["vocab"], pairs, **given)
            model = _NOTHING
        self._added = added
        self._settings = {
            **tokenizer,
            "model": model,
            "added_tokens": [] if self._bpe is not None else added,
            "post_processor": None,
            "truncation": None,
            "padding": None,
        }

    def tokenizer(self, pre_tokenizer: Any, normalizer: Any) -> Tokenizer:
        """A tokenizer with these parts, as `tokenizer.json` describes them."""
        settings = {**self._settings, "pre_tokenizer": pre_tokenizer, "normalizer": normalizer}
        made = Tokenizer.from_str(json.dumps(settings))
        if self._bpe is not None:
            made.model = self._bpe
            made.add_tokens([_added(entry) for entry in self._added])
        return made


def _is_listed(model: Any) -> bool:
    """Whether a model is one of BPE in parts that are known here."""
    return (
        isinstance(model, dict)
        and model.get("type") == "BPE"
        and isinstance(model.get("vocab"), dict)
        and isinstance(model.get("merges"), list)
        and model.keys() <= _PARTS
    )


def _added(entry: Json) -> AddedToken:
    return AddedToken(entry["content"], **{name: entry[name] for name in _FLAGS})


def _without(model: Any, markers: frozenset[str]) -> Any:
    """The model without any way from text to a marker in its own vocabulary."""
    if not isinstance(model, dict):
        return model
    vocab, merges = model.get("vocab"), model.get("merges")
    if isinstance(vocab, list):  # Unigram
        return {**model, "vocab": [[_unspellable(text, markers), n] for text, n in vocab]}
    if not isinstance(vocab, dict) or not (markers & vocab.keys()):
        return model
    if model.get("ignore_merges") or not merges:  # whole words are looked up
        model = {**model, "vocab": {_unspellable(text, markers): i for text, i in vocab.items()}}
    if merges:
        into = {(text[:cut], text[cut:]) for text in markers for cut in range(1, len(text))}
        model = {**model, "merges": [pair for pair in _pairs(merges) if pair not in into]}
    return model


def _unspellable(text: str, markers: frozenset[str]) -> str:
    return UNSPELLABLE + text if text in markers else text


def _pairs(merges: list[Any]) -> list[tuple[str, ...]]:
    """Merges as pairs; files write each as one text or as two."""
    if str not in {*map(type, merges)}:
        return [*map(tuple, merges)]
    texts = [text for text in merges if not text.startswith(_VERSION)]
    return [tuple(text.split(" ")) for text in texts]

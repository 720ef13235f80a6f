"""How byte-level BPE cuts a text into words, by the name that a GGUF file gives it.

The steps are those of Hugging Face's own `tokenizer.json` of these models. llama.cpp writes them as
expressions of its own, which cut equally.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One way of cutting.

    Attributes:
        steps: Steps of the pre-tokenizer, as `tokenizer.json` has them.
        composes: Whether characters are composed first (NFC).
        ignores_merges: Whether a word that is a token becomes it whatever the merges say.
        adds_bos: Whether a text begins with the token of the beginning, unless the file says.
    """

    steps: tuple[Step, ...]
    composes: bool = False
    ignores_merges: bool = False
    adds_bos: bool = False


def byte_level(*, use_regex: bool) -> Step:
    """The step from bytes to characters, which may cut as GPT-2 does."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": use_regex,
    }


def _isolated(pattern: str) -> Step:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


_ONLY_BYTES, _GPT2_WORDS = byte_level(use_regex=False), byte_level(use_regex=True)
_DIGITS: Step = {"type": "Digits", "individual_digits": True}
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_MARKED_REST = r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATH_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+"
_CAPITALS = rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*"
_DEEPSEEK3_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(pattern: str) -> PreTokenizer:
    return PreTokenizer((_isolated(pattern), _ONLY_BYTES))


_GPT2 = PreTokenizer((_GPT2_WORDS,))
_STARCODER = PreTokenizer((_DIGITS, _GPT2_WORDS))
_LLAMA3 = replace(
    _split(rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}"), ignores_merges=True, adds_bos=True
)
_QWEN2 = replace(_split(rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_REST}"), composes=True)
_QWEN35 = _split(rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}|{_MARKED_REST}")
_TEKKEN = replace(
    _split(rf"{_CASED}|{_CAPITALS}|\p{{N}}|{_PATH_REST}"), ignores_merges=True, adds_bos=True
)
_GPT4O = _split(
    rf"{_CASED}{_CONTRACTIONS}?|{_CAPITALS}{_CONTRACTIONS}?|\p{{N}}{{1,3}}|{_PATH_REST}"
)
_DEEPSEEK_CODER = PreTokenizer(
    (
        _isolated(r"[\r\n]"),
        _isolated(r"\s?\p{L}+"),
        _isolated(r"\s?\p{P}+"),
        _isolated(r"[一-龥ࠀ-一가-퟿]+"),
        _DIGITS,
        _ONLY_BYTES,
    )
)
_DEEPSEEK3 = PreTokenizer(
    (
        _isolated(r"\p{N}{1,3}"),
        _isolated(r"[一-龥\u3040-\u309f\u30a0-\u30ff]+"),
        _isolated(_DEEPSEEK3_WORDS),
        _ONLY_BYTES,
    )
)

PRE_TOKENIZERS = {
    **dict.fromkeys(("gpt-2", "phi-2"), _GPT2),
    "mpt": replace(_GPT2, composes=True),
    **dict.fromkeys(("starcoder", "refact", "smollm"), _STARCODER),
    "command-r": replace(_STARCODER, composes=True),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "lfm2"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe"), replace(_LLAMA3, ignores_merges=False, adds_bos=False)),
    **dict.fromkeys(("qwen2", "megrez"), _QWEN2),
    "deepseek-r1-qwen": replace(_QWEN2, composes=False),
    "qwen35": _QWEN35,
    "tekken": _TEKKEN,
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT4O),
    "deepseek-coder": _DEEPSEEK_CODER,
    "deepseek-v3": _DEEPSEEK3,
}
"""Ways of cutting by the value of `tokenizer.ggml.pre`."""

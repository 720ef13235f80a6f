"""Train the tokenizer of the embedded models on the corpus, and write its files.

    python examples/embedded_model/tokenizer.py

Byte-level BPE. Digits and capital letters are single tokens and nothing is merged over them, so that a number or a
ticker that was never seen is copied symbol by symbol.
"""

import json
import re
from pathlib import Path

from corpus.example import EMBEDDED
from corpus.mix import draw
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 1536
SEED = 20
SAMPLES = 12_000
MARKERS = (
    "<|pad|>",
    "<|begin|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|call|>",
    "<|/call|>",
)
SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{Lt}\p{M}]"
PATTERN = rf"\p{{Lu}}|\p{{N}}|[^\r\n\p{{L}}\p{{N}}]?{SMALL}+| ?[^\s\p{{L}}\p{{N}}]+|\s*[\r\n]+|\s+(?!\S)|\s+"


def train() -> Tokenizer:
    """A tokenizer learned from the first transcripts of the corpus."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(marker, special=True, normalized=False) for marker in MARKERS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces = (
        piece
        for index in range(SAMPLES)
        for piece in re.split("|".join(map(re.escape, MARKERS)), draw(SEED, index).text)
    )
    tokenizer.train_from_iterator(pieces, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, directory: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`."""
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    save(train(), EMBEDDED)

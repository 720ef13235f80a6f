"""Random weights of a shape as a real checkpoint directory, written once.

The engine and its peers read the same files, so they compute the same function. The weights are
saved in bf16; an arm that computes in another dtype converts them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from itertools import count, islice, product
from pathlib import Path
from string import ascii_letters

from tokenizers import Tokenizer, pre_tokenizers

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.record import record
from agentrt.base.user_folders import cache_folder
from agentrt.lab.checkpoints.byte_tokenizer import byte_tokenizer
from agentrt.lab.checkpoints.shapes import config_of
from agentrt.lab.checkpoints.weights import (
    FIRST_WORD_ID,
    WORD_LETTERS,
    bf16_bytes,
    letters_of,
    random_values,
    weights_of,
)
from agentrt.lab.progress import log

_SPECIAL_NAMES = ("begin", "end", "user", "assistant", "call", "/call", "result", "pad")
_SPECIAL = tuple(f"<|{name}|>" for name in _SPECIAL_NAMES)
_TEMPLATE = (
    "<|begin|>{% for m in messages %}{{ '<|assistant|>' if m.role == 'assistant' else '<|user|>' }}"
    "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_VERSION = 4
_SPACE = "\u0120"  # as byte-level tokenizers write it


@record
class CheckpointText:
    """Tokenizer and chat template of a checkpoint, in place of made-up words.

    Attributes:
        name: Name behind that of the shape; another text has another one.
        tokenizer: Makes the tokenizer for a size of the vocabulary. Its first special tokens begin
            and end a text, as in `config_of`; `<|pad|>` is among them.
        template: Chat template.
    """

    name: str
    tokenizer: Callable[[int], Tokenizer]
    template: str


def bench_folder() -> Path:
    """The folder of all checkpoints, and of what is made of them."""
    return cache_folder(os.environ) / "bench"


def checkpoint(
    shape: ModelShape,
    *,
    seed: int = 0,
    with_weights: bool = True,
    folder: Path | None = None,
    text: CheckpointText | None = None,
) -> Path:
    """The directory of a shape's checkpoint; written if it is not there yet.

    Args:
        shape: Shape of the model.
        seed: Seed of its weights.
        with_weights: False leaves them out, for an engine that makes its own (`random_weights`).
        folder: Folder of all checkpoints; None takes the cache.
        text: Tokenizer and chat template; None takes words of a few letters.
    """
    root = folder or bench_folder()
    written = text or _WORDS
    name = "-".join(part for part in (shape.name, written.name, f"{seed or ''}") if part)
    target = root / (name if with_weights else f"{name}-bare")
    wanted = {"version": _VERSION, "seed": seed, "config": config_of(shape, "bfloat16")}
    stamp = target / "written.json"
    if stamp.is_file() and json.loads(stamp.read_text("utf-8")) == wanted:
        return target
    log(f"writing {'weights' if with_weights else 'the config'} of {shape.name} to {target}")
    root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=root, prefix=f".{name}-"))
    try:
        _write_config(shape, draft, written)
        if with_weights:
            _write_weights(shape, seed, draft)
        (draft / "written.json").write_text(json.dumps(wanted), "utf-8")
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _write_config(shape: ModelShape, folder: Path, text: CheckpointText) -> None:
    (folder / "config.json").write_text(json.dumps(config_of(shape, "bfloat16"), indent=1), "utf-8")
    text.tokenizer(shape.vocabulary).save(str(folder / "tokenizer.json"))
    settings = {
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "chat_template": text.template,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")


def _tokenizer(vocabulary: int) -> Tokenizer:
    """Bytes, special tokens, then words: a space and up to three letters, one token each.

    A text of such words is read back as the tokens that wrote it, by every reader of the file.
    """
    words = _words(vocabulary - len(pre_tokenizers.ByteLevel.alphabet()) - len(_SPECIAL))
    merges = [(word[:-1], word[-1]) for word in words if word[-1] in ascii_letters]
    return byte_tokenizer(_SPECIAL, words, merges)


def _words(many: int) -> list[str]:
    """Words of a vocabulary, shorter ones first: each is merged from one that is a letter shorter.

    They use as few letters of the alphabet as possible. If all letters are too few, words of digits
    follow, which the tokenizer never produces.
    """
    letters = letters_of(many + FIRST_WORD_ID)
    lengths = range(1, WORD_LETTERS + 1)
    made = (word for length in lengths for word in product(ascii_letters[:letters], repeat=length))
    words = [_SPACE + "".join(word) for word in islice(made, many)]
    return words + [f"{_SPACE}{at}" for at in islice(count(), many - len(words))]


_WORDS = CheckpointText("", _tokenizer, _TEMPLATE)


def _write_weights(shape: ModelShape, seed: int, folder: Path) -> None:
    """Write a safetensors file: the length of its header, the header, then tensor after tensor.

    The library would need all tensors in memory at once.
    """
    specs = list(weights_of(shape))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for spec in specs:
        begin, end = end, end + 2 * math.prod(spec.shape)
        header[spec.name] = {
            "dtype": "BF16",
            "shape": spec.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for index, spec in enumerate(specs):
            file.write(bf16_bytes(random_values(spec, seed, index)))

"""Files of a model directory that a codec reads: JSON and a template, never weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.model_json import parse_model_json, read_model_text

WINDOW_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_sequence_length",
    "seq_length",
)
SPECIAL_NAMES = tuple(
    f"{kind}_token" for kind in ("bos", "eos", "unk", "pad", "sep", "cls", "mask")
)
MAX_WINDOW_TOKENS = 100_000_000
"""Tokenizers write 1e30 for "no limit"."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The text of a model directory.

    Attributes:
        path: The directory, or a GGUF file.
        tokenizer_json: Text of `tokenizer.json`.
        templates: Chat templates by name; "default" and maybe "tool_use"; {} if there are none.
        special_texts: Text of `bos_token` etc. by name, as templates read them.
        eos_texts: Texts of tokens that end an output, by the tokenizer's files.
        eos_ids: Ids that end an output, by the model's files.
        window_tokens: Context length; 0 if unknown.
        logits_size: `vocab_size` of the model; 0 if unknown.
    """

    path: Path
    tokenizer_json: str
    templates: dict[str, str] = field(default_factory=dict)
    special_texts: dict[str, str] = field(default_factory=dict)
    eos_texts: tuple[str, ...] = ()
    eos_ids: tuple[int, ...] = ()
    window_tokens: int = 0
    logits_size: int = 0

    @property
    def tokenizer_path(self) -> Path:
        """The file that describes the tokenizer."""
        return self.path if is_gguf(self.path) else self.path / "tokenizer.json"


def read_model_files(path: Path) -> ModelFiles:
    """Read the files that a codec needs.

    Raises:
        ModelInvalid: The directory or its tokenizer is missing, or a file is malformed.
    """
    if not path.is_dir():
        raise ModelInvalid(
            f"{path} is not a directory", hint="Give the directory of a Hugging Face checkpoint"
        )
    tokenizer_json = _text(path / "tokenizer.json")
    if tokenizer_json is None:
        raise ModelInvalid(
            f"{path} has no tokenizer.json",
            hint="Save it there with `AutoTokenizer.from_pretrained(...).save_pretrained(path)`",
        )
    settings = _json(path / "tokenizer_config.json")
    special_texts = _special_texts(settings, _json(path / "special_tokens_map.json"))
    config = _json(path / "config.json")
    return ModelFiles(
        path=path,
        tokenizer_json=tokenizer_json,
        templates=_templates(path, settings),
        special_texts=special_texts,
        eos_texts=tuple(filter(None, [special_texts.get("eos_token")])),
        eos_ids=_eos_ids(path, config),
        window_tokens=_window_tokens(path, config, settings),
        logits_size=_logits_size(config),
    )


def _text(path: Path) -> str | None:
    try:
        return read_model_text(path)
    except FileNotFoundError:
        return None


def _json(path: Path) -> dict[str, Any]:
    """The object in `path`; {} if there is no such file."""
    text = _text(path)
    return {} if text is None else parse_model_json(text, path)


def _templates(path: Path, settings: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    declared = settings.get("chat_template")
    if isinstance(declared, str):
        found["default"] = declared
    elif isinstance(declared, list):
        for entry in declared:
            if not isinstance(entry, dict) or not isinstance(entry.get("template"), str):
                raise _bad_template(path, "an entry of chat_template has no template")
            found[str(entry.get("name", "default"))] = entry["template"]
    elif declared is not None:
        raise _bad_template(path, f"chat_template is a {type(declared).__name__}")
    separate = _text(path / "chat_template.jinja")
    if separate is not None:
        found["default"] = separate
    for file in sorted(path.glob("additional_chat_templates/*.jinja")):
        found[file.stem] = _text(file) or ""
    if found and "default" not in found:
        found["default"] = next(iter(found.values()))
    return found


def _bad_template(path: Path, problem: str) -> ModelInvalid:
    hint = 'Give a string, or a list of {"name": ..., "template": ...}'
    return ModelInvalid(f"{path / 'tokenizer_config.json'}: {problem}", hint=hint)


def _special_texts(*sources: dict[str, Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for source in sources:
        for name in SPECIAL_NAMES:
            value = source.get(name)
            text = value.get("content") if isinstance(value, dict) else value
            if isinstance(text, str) and name not in texts:
                texts[name] = text
    return texts


def _eos_ids(path: Path, config: dict[str, Any]) -> tuple[int, ...]:
    found: list[int] = []
    for source in (_json(path / "generation_config.json"), *_configs(config)):
        value = source.get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        found += [i for i in ids if isinstance(i, int) and i >= 0]
    return tuple(dict.fromkeys(found))


def _configs(config: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The model's configuration, and that of its language part if there are several."""
    yield config
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(key), dict):
            yield config[key]


def _window_tokens(path: Path, config: dict[str, Any], settings: dict[str, Any]) -> int:
    for source in _configs(config):
        for key in WINDOW_KEYS:
            value = source.get(key)
            if value is None:
                continue
            if not isinstance(value, int) or value < 1:
                raise ModelInvalid(
                    f"{path / 'config.json'}: {key} is {value!r}", hint="Give a number of tokens"
                )
            return value
    limit = settings.get("model_max_length")
    if isinstance(limit, int | float) and 0 < limit < MAX_WINDOW_TOKENS:
        return int(limit)
    return 0


def _logits_size(config: dict[str, Any]) -> int:
    for source in _configs(config):
        value = source.get("vocab_size")
        if isinstance(value, int) and value > 0:
            return value
    return 0

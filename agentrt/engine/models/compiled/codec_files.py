"""Files beside compiled weights: config, tokenizer and chat templates, as a codec reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.engine.models.checkpoint import read_config
from agentrt.prompt.gguf_model_files import read_gguf_model_files

_COPIED = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("generation_config.json", "chat_template.jinja"),
)
_TEMPLATES = "additional_chat_templates"


def write_codec_files(source: Path, folder: Path) -> None:
    """Write into a folder what a model's codec and its shape are read from.

    Args:
        source: A checkpoint directory, whose files are copied, or a GGUF file, whose metadata is
            written as such files.
        folder: The folder.
    """
    config = read_config(source, weights=False)
    config.pop("quantization_config", None)  # matrices are in another form now
    _write(folder / "config.json", config)
    if is_gguf(source):
        _write_gguf(source, folder)
        return
    for name in _COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    if (source / _TEMPLATES).is_dir():
        (folder / _TEMPLATES).mkdir()
        for file in sorted((source / _TEMPLATES).glob("*.jinja")):
            shutil.copyfile(file, folder / _TEMPLATES / file.name)


def _write_gguf(source: Path, folder: Path) -> None:
    files = read_gguf_model_files(source)
    (folder / "tokenizer.json").write_text(files.tokenizer_json, "utf-8")
    templates = [{"name": name, "template": text} for name, text in files.templates.items()]
    settings = {**files.special_texts, **({"chat_template": templates} if templates else {})}
    _write(folder / "tokenizer_config.json", settings)
    _write(folder / "generation_config.json", {"eos_token_id": list(files.eos_ids)})


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")

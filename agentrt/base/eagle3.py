"""EAGLE-3 heads among checkpoint directories, told by their config alone."""

from __future__ import annotations

from pathlib import Path

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.model_json import parse_model_json, read_model_text

_ARCHITECTURES = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM")


def is_eagle3(path: Path) -> bool:
    """Whether a checkpoint directory holds an EAGLE-3 head, by the architecture that it names.

    Raises:
        ModelInvalid: The `config.json` cannot be read.
    """
    file = path / "config.json"
    if is_gguf(path) or not file.is_file():
        return False
    names = parse_model_json(read_model_text(file), file).get("architectures")
    return isinstance(names, list) and any(name in _ARCHITECTURES for name in names)


def check_is_model(path: Path) -> None:
    """Check that a checkpoint directory is a model by itself.

    Raises:
        ModelInvalid: The directory holds a head, which only drafts for a model.
    """
    if is_eagle3(path):
        raise ModelInvalid(
            f"{path} is an EAGLE-3 head: it drafts for a model and is none itself",
            hint="Give it by --draft-model, and the model that it was trained for by --model",
        )

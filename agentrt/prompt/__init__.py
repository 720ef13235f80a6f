"""Prompts as token ids: the codec of a model (chat template and tokenizer). Needs no torch.

The codec is imported on first access: engines that take messages need neither its packages nor the
time of their import.
"""

from typing import TYPE_CHECKING, Any

from agentrt.base.engine_extra import require_packages
from agentrt.prompt.detokenizer import Detokenizer
from agentrt.prompt.encoded import Encoded, PrefixLoss

if TYPE_CHECKING:
    from agentrt.prompt.codec import Codec

__all__ = ["Codec", "Detokenizer", "Encoded", "PrefixLoss"]


def __getattr__(name: str) -> Any:
    """The codec, imported on first access."""
    if name == "Codec":
        require_packages("the codec of a model", ("tokenizers", "jinja2"))
        from agentrt.prompt.codec import Codec

        return Codec
    raise AttributeError(f"module 'agentrt.prompt' has no attribute {name!r}")

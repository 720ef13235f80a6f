"""Prompts as token ids: the codec of a model (chat template and tokenizer). Needs no torch."""

from agentrt.prompt.codec import Codec
from agentrt.prompt.detokenizer import Detokenizer
from agentrt.prompt.encoded import Encoded, PrefixLoss

__all__ = ["Codec", "Detokenizer", "Encoded", "PrefixLoss"]

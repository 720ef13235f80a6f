"""OpenAI chat completions, the protocol that most servers speak."""

from agentrt.remote.protocols.chat_completions.protocol import ChatCompletions

__all__ = ["ChatCompletions"]

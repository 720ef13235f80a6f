"""The bodies of requests about text without a chat: completions, tokenizing and detokenizing."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_schema import (
    Alternatives,
    BodyText,
    GenerationFields,
    Messages,
    ModelName,
    StrictFields,
    Tools,
)

DEFAULT_TOKENS = 16
"""Length of a completion if its request gives none: the API's own."""

TokenIds = list[Annotated[int, Field(strict=True)]]


def _form_of(value: Any) -> str:
    """The form of a prompt, by its first part."""
    if not isinstance(value, list):
        return "text"
    return "prompts" if value and isinstance(value[0], str | list) else "ids"


Prompt = Annotated[
    Annotated[BodyText, Tag("text")]
    | Annotated[TokenIds, Tag("ids")]
    | Annotated[list[BodyText | TokenIds], Tag("prompts")],
    Discriminator(_form_of),
]


class TextRequest(GenerationFields):
    """A request for a completion of text or of token ids."""

    prompt: Prompt
    add_special_tokens: bool = True
    echo: Literal[False] | None = False
    logprobs: Alternatives | None = None
    best_of: Literal[1] | None = 1
    suffix: None = None

    @property
    def alternatives(self) -> int | None:
        """Alternatives of each token with log-probabilities; None without log-probabilities."""
        return self.logprobs

    @property
    def limit_tokens(self) -> int | None:
        """Most tokens of the answer."""
        return self.max_tokens or DEFAULT_TOKENS

    @property
    def only_prompt(self) -> str | list[int]:
        """The prompt.

        Raises:
            RequestRefused: There is none, or there are several.
        """
        return only_prompt(self.prompt)


class TokenizeRequest(StrictFields):
    """A request for the token ids of a text, or of a chat as its prompt has them."""

    model: ModelName | None = None
    is_constrained: ClassVar[bool] = False
    prompt: BodyText | None = None
    messages: Messages | None = None
    tools: Tools | None = None
    add_special_tokens: bool = True
    add_generation_prompt: Literal[True] = True
    return_token_strs: Literal[False] | None = False


class DetokenizeRequest(StrictFields):
    """A request for the text of token ids."""

    model: ModelName | None = None
    tokens: TokenIds


def only_prompt(prompt: str | list[int] | list[str | list[int]]) -> str | list[int]:
    """The prompt of a completion, which may stand alone in a list.

    Raises:
        RequestRefused: There is none, or there are several.
    """
    found: Any = prompt
    if isinstance(found, list) and found and isinstance(found[0], str | list):
        if len(found) > 1:
            why = f"prompt: {len(found)} prompts in one request are not served: send one in each"
            raise RequestRefused(400, why, param="prompt", code="unsupported_value")
        found = found[0]
    if not found:
        raise RequestRefused(400, "prompt: at least one token is needed", param="prompt")
    return found  # type: ignore[no-any-return]  # the schema has checked it

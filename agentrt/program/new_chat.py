"""The beginning of every conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.json_style import SEPARATORS, JsonStyle
from agentrt.base.segments import History
from agentrt.program.call_site import call_site
from agentrt.program.chat import Chat
from agentrt.program.prompt_prefix import with_more_tools
from agentrt.program.tool import Tool


def chat(
    system: str | None = None,
    *,
    history: History = "template",
    tools: Sequence[Tool[..., Any]] = (),
    json_style: JsonStyle = "compact",
) -> Chat:
    """An empty chat, or one with a system message.

    Start every conversation with it. It may be a constant of the module, which all runs share.

    Example:
        >>> from agentrt import chat
        >>> chat("Be brief.").user("Name a river.").messages()[0]
        {'role': 'system', 'content': 'Be brief.'}

    Args:
        system: The first message.
        history: The form of answers in the prompts that follow them. With "template" they stand as
            the model was trained: some templates leave out earlier reasoning, and the KV cache from
            there on is lost, which traces show with the reason. With "append" they stand just as
            they were generated, so every prompt extends what was computed.
        tools: Tools that its prompts describe from their beginning. `calls` and `step` may each be
            held to some of them by a mask, and the prompt, so its prefix, stays the same.
        json_style: Style of results of tools and of other values in its prompts that are no text:
            "compact", "spaced" as `json.dumps` writes, or "indented". Answers have their own
            `json_style`; tools and calls are written as the model's template does.

    Raises:
        UsageError: `history` or `json_style` is none of these.
    """
    if history not in ("template", "append"):
        raise UsageError(
            f"history={history!r} is unknown", hint="Give 'template' or 'append'", where=call_site()
        )
    if json_style not in SEPARATORS:
        raise UsageError(
            f"json_style={json_style!r} is unknown",
            hint=f"There are: {', '.join(SEPARATORS)}",
            where=call_site(),
        )
    empty = with_more_tools(Chat(history=history, json_style=json_style), tools)
    return empty if system is None else empty.system(system)

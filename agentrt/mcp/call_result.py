"""The result of a tool call as a server gives it, and the value that a tool of agentrt gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.base.errors import ToolFailed

if TYPE_CHECKING:
    from mcp_types import CallToolResult


def value_of(result: CallToolResult, *, tool: str, where: str) -> Any:
    """The structured content if there is any, else the text; texts are lines of one.

    What is no text is left out, and named in the text.

    Args:
        result: The result.
        tool: Name of the tool, for messages.
        where: `file:line` where its server was opened.

    Raises:
        ToolFailed: The tool reports an error, or gives nothing but content that is no text.
    """
    texts = [_text_of(block) for block in result.content]
    shown = [
        f"[{_kind(block)}, left out]" if text is None else text
        for text, block in zip(texts, result.content, strict=True)
    ]
    joined = "\n".join(shown)
    if result.is_error:
        raise ToolFailed(f"{tool}: {joined or 'no message'}", tool=tool, where=where)
    if result.structured_content is not None:
        return result.structured_content
    if texts and all(text is None for text in texts):
        raise ToolFailed(
            f"{tool} gave {_kind(result.content[0])}, and prompts hold text alone",
            hint="Use a tool that gives text, or leave this one out: without=[...]",
            tool=tool,
            where=where,
        )
    return joined


def _text_of(block: Any) -> str | None:
    """The text of a block; None for what is none. A link is its address."""
    match block.type:
        case "text":
            text: str = block.text
            return text
        case "resource_link":
            return str(block.uri)
        case "resource":
            return getattr(block.resource, "text", None)
        case _:
            return None


def _kind(block: Any) -> str:
    holder = block.resource if block.type == "resource" else block
    kind = getattr(holder, "mime_type", None) or "unknown type"
    return f"{'binary data' if block.type == 'resource' else block.type} ({kind})"

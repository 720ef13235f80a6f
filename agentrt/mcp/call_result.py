"""The result of a tool call as a server gives it, and the value that a tool of agentrt gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.base.errors import ToolFailed

if TYPE_CHECKING:
    from mcp_types import CallToolResult


def value_of(result: CallToolResult, *, tool: str, where: str) -> Any:
    """The structured content if there is any, else the text; texts are lines of one.

    Args:
        result: The result.
        tool: Name of the tool, for messages.
        where: `file:line` where its server was opened.

    Raises:
        ToolFailed: The tool reports an error, or gives content that is no text.
    """
    texts: list[str] = []
    for block in result.content:
        text = _text_of(block)
        if text is None and not result.is_error:
            raise ToolFailed(
                f"{tool} gave {_kind(block)}, and prompts hold text alone",
                hint="Use a tool that gives text, or leave this one out: without=[...]",
                tool=tool,
                where=where,
            )
        texts.append(f"[{_kind(block)}]" if text is None else text)
    joined = "\n".join(texts)
    if result.is_error:
        raise ToolFailed(f"{tool}: {joined or 'no message'}", tool=tool, where=where)
    return joined if result.structured_content is None else result.structured_content


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

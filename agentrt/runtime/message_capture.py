"""Message capture: prompts and outputs as messages of OpenTelemetry's GenAI conventions.

Made only for observers that want them, because the cost grows with the length of the chat.
"""

from __future__ import annotations

from typing import Any

from agentrt.base.canonical_json import content, dumps
from agentrt.base.message_parts import genai_messages
from agentrt.base.segments import Close, Open
from agentrt.program import Gen, Node, ToolWork
from agentrt.prompt.message_form import function_of
from agentrt.protocol.events import AttributeValue


def captured_content(node: Node[Any], finish_reason: str) -> dict[str, AttributeValue]:
    """Arguments, results and messages of a node that has ended, as span attributes."""
    work = node.work
    if isinstance(work, ToolWork):
        return _tool(node, work)
    if isinstance(node, Gen):
        return _generation(node, finish_reason)
    return {}


def _tool(node: Node[Any], work: ToolWork) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "gen_ai.tool.call.arguments": (
            work.call.arguments_json if work.call is not None else _json(dict(work.arguments))
        )
    }
    if node.error is None:
        found["gen_ai.tool.call.result"] = _json(node.value)
    return found


def _generation(gen: Gen[Any], finish_reason: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    try:
        segments = gen.work.chat.segments()
    except Exception:  # an input failed: there was no prompt
        segments = []
    messages = genai_messages(segments)
    system = [
        part for message in messages if message["role"] == "system" for part in message["parts"]
    ]
    if system:
        found["gen_ai.system_instructions"] = dumps(system)
    found["gen_ai.input.messages"] = dumps([m for m in messages if m["role"] != "system"])
    answer = genai_messages([Open("assistant"), gen.generated, Close()])
    found["gen_ai.output.messages"] = dumps(
        [{**message, "finish_reason": finish_reason} for message in answer]
    )
    if gen.work.chat.tools:
        tools = [{"type": "function", **function_of(tool)} for tool in gen.work.chat.tools]
        found["gen_ai.tool.definitions"] = dumps(tools)
    return found


def _json(value: Any) -> str:
    """JSON if the value has a JSON form, else its `repr`."""
    try:
        return content(value)
    except ValueError:
        return repr(value)

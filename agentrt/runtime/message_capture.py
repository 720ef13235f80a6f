"""Message capture: prompts and outputs as messages of OpenTelemetry's GenAI conventions.

Made only for observers that want them, because the cost grows with the length of the chat.
"""

from __future__ import annotations

from typing import Any

from agentrt.base.canonical_json import content, dumps
from agentrt.base.message_parts import genai_messages
from agentrt.base.segments import Close, Open
from agentrt.program import AskWork, Gen, Node, ProgramWork, ToolWork
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.prompt.message_form import function_of
from agentrt.protocol.events import AttributeValue
from agentrt.runtime.written_answer import answer_so_far


def captured_content(node: Node[Any], finish_reason: str) -> dict[str, AttributeValue]:
    """Arguments, results and messages of a node that has ended, as span attributes."""
    work = node.work
    if isinstance(work, ToolWork):
        return _tool(node, work)
    if isinstance(node, Gen):
        return _generation(node, finish_reason)
    if isinstance(work, ProgramWork):
        return _program(node, work)
    if isinstance(work, AskWork):
        return _question(node, work)
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


def _program(node: Node[Any], work: ProgramWork) -> dict[str, AttributeValue]:
    """The arguments of a program as a question, and its result as the answer."""
    arguments = {
        name: value
        for name, value in work.arguments.items()
        if not isinstance(value, Node) and _json_of(value) is not None
    }
    found: dict[str, AttributeValue] = {}
    if arguments:
        alone = next(iter(arguments.values())) if len(arguments) == 1 else None
        question = alone if isinstance(alone, str) else content(arguments)
        found["gen_ai.input.messages"] = dumps([_text_message("user", question)])
        found["input.value"] = question
    if node.error is None and node.value is not None:
        value = node.value
        text = value if isinstance(value, str) else _json(value)
        answer = {**_text_message("assistant", text), "finish_reason": "stop"}
        found["gen_ai.output.messages"], found["output.value"] = dumps([answer]), text
    return found


def _question(node: Node[Any], work: AskWork) -> dict[str, AttributeValue]:
    """A question to a person and the answer; the GenAI conventions have no names for them."""
    found: dict[str, AttributeValue] = {"input.value": work.question}
    if node.error is None:
        found["output.value"] = _json(node.value)
    return found


def _text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _generation(gen: Gen[Any], finish_reason: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    try:
        segments = prompt_segments(gen.work.chat)
    except Exception:  # an input failed: there was no prompt
        segments = []
    messages = genai_messages(segments)
    system = [
        part for message in messages if message["role"] == "system" for part in message["parts"]
    ]
    if system:
        found["gen_ai.system_instructions"] = dumps(system)
    found["gen_ai.input.messages"] = dumps([m for m in messages if m["role"] != "system"])
    written = answer_so_far(gen)
    answer = genai_messages([Open("assistant"), *([written] if written else []), Close()])
    found["gen_ai.output.messages"] = dumps(
        [{**message, "finish_reason": finish_reason} for message in answer]
    )
    if gen.work.chat.tools:
        tools = [{"type": "function", **function_of(tool)} for tool in gen.work.chat.tools]
        found["gen_ai.tool.definitions"] = dumps(tools)
    return found


def _json(value: Any) -> str:
    """JSON if the value has a JSON form, else its `repr`."""
    found = _json_of(value)
    return repr(value) if found is None else found


def _json_of(value: Any) -> str | None:
    try:
        return content(value)
    except ValueError:
        return None

"""The script of a scripted engine: its replies, and the prompt in the form for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.errors import AgentrtError, UsageError
from agentrt.base.record import record
from agentrt.base.segments import (
    JSON_ARRAY_FRAME,
    CallFrame,
    CallMade,
    Close,
    Generated,
    Open,
    ResultOf,
    Segment,
    Text,
)
from agentrt.protocol.backend import GenerateRequest


@record
class Reply:
    """One answer.

    Attributes:
        text: Text of the answer.
        error: Ends the request as failed after `text`; None ends it well.
        thinking: Reasoning before the answer if requested; cut at the thinking budget.
    """

    text: str = ""
    error: AgentrtError | None = None
    thinking: str = ""


Script = Callable[[GenerateRequest, str], "str | Reply"] | Iterable["str | Reply"]
"""A function of request and prompt text, or answers in order."""


class Answers:
    """A script, called once a request."""

    def __init__(self, script: Script) -> None:
        self._ask = script if callable(script) else None
        self._rest: Iterator[str | Reply] = iter(()) if callable(script) else iter(script)
        self._given = 0

    def reply(self, request: GenerateRequest, prompt: str) -> Reply:
        """The answer to `request`.

        Raises:
            UsageError: The list of answers is used up.
        """
        if self._ask is not None:
            answer = self._ask(request, prompt)
        else:
            found = next(self._rest, None)
            if found is None:
                raise UsageError(
                    f"the script ends after {self._given} answers, and {request.node_id} asks too",
                    hint="Give the script one answer a generation, or a function",
                )
            answer = found
        self._given += 1
        return answer if isinstance(answer, Reply) else Reply(answer)


def calls_text(
    *calls: tuple[str, Mapping[str, Any]], frame: CallFrame = JSON_ARRAY_FRAME, content: str = ""
) -> str:
    """Tool calls as a model would write them.

    Example:
        >>> calls_text(("price", {"symbol": "IBM"}))
        '[{"name":"price","arguments":{"symbol":"IBM"}}]'
    """
    texts = [
        (name, frame.arguments_text(canonical_json.dumps(dict(arguments))))
        for name, arguments in calls
    ]
    written = (f"{frame.before}{name}{frame.middle}{text}{frame.after}" for name, text in texts)
    return f"{content}{frame.first}{frame.between.join(written)}{frame.last}"


def prompt_text(segments: tuple[Segment, ...]) -> str:
    """Messages in the form for scripts: a line `<role> text` each."""
    parts: list[str] = []
    for segment in segments:
        match segment:
            case Open(role):
                parts.append(f"<{role}> ")
            case Close():
                parts.append("\n")
            case Text(text):
                parts.append(text)
            case Generated() | CallMade() | ResultOf():
                parts.append(_written(segment))
    return "".join(parts)


def _written(segment: Generated | CallMade | ResultOf) -> str:
    match segment:
        case Generated(text=text):
            return text
        case CallMade(name=name, arguments_json=arguments):
            return f"[call {name} {arguments}]"
        case ResultOf(name=name):
            return f"[result of {name}] "

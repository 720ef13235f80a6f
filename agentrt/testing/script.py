"""The script of a scripted engine: its replies, and the prompt in the form for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.errors import UsageError
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
from agentrt.testing.timed_output import OutputTimes, TimedOutput


@record
class Call:
    """One tool call of a scripted answer; `call` makes it.

    Attributes:
        name: Name of the tool.
        arguments: Arguments by name.
    """

    name: str
    arguments: Mapping[str, Any]


def call(name: str, /, **arguments: Any) -> Call:
    """A tool call as an answer of a scripted engine; a list of them is a plan.

    Example:
        >>> call("price", symbol="IBM")
        Call(name='price', arguments={'symbol': 'IBM'})
    """
    return Call(name, arguments)


@record
class Reply:
    """One answer, with what plain text does not say.

    Example:
        >>> Reply("orders", scores={"orders": 0.8, "returns": 0.2}, queue_s=0.5).queue_s
        0.5

    Attributes:
        text: Text of the answer, or a value that is written as the output's type; "" with scores
            is the likeliest option.
        error: Ends the request as failed after `text`; None ends it well.
        thinking: Reasoning before the answer if requested; cut at the thinking budget.
        calls: Tool calls behind the text.
        scores: Probability of each option of a scored choice; None gives 0.9 to the one in `text`.
        logprobs: Log-probability of each token if requested, or one for all of them.
        queue_s: Virtual seconds in the engine's queue.
        prefill_s: Virtual seconds of the prompt; None takes them from the engine's speed.
        decode_s: Virtual seconds from the first token to the last; None likewise.
        output: A recorded output, which replaces all of the above; None for a scripted one.
    """

    text: Any = ""
    error: Exception | None = None
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    scores: Mapping[str, float] | None = None
    logprobs: float | Sequence[float] = -0.1
    queue_s: float = 0.0
    prefill_s: float | None = None
    decode_s: float | None = None
    output: TimedOutput | None = None

    def times(self, prefill_s: float, token_s: float, tokens: int) -> OutputTimes | None:
        """Times of an output of so many tokens; None if the steps of the engine decide.

        Args:
            prefill_s: Time of the prompt at the engine's speed.
            token_s: Time of a token at that speed.
            tokens: Length of the output.
        """
        if self.prefill_s is None and self.decode_s is None and not self.queue_s:
            return None
        decode_s = token_s * tokens if self.decode_s is None else self.decode_s
        return OutputTimes(
            queue_s=self.queue_s,
            prefill_s=prefill_s if self.prefill_s is None else self.prefill_s,
            decode_s=decode_s,
        )


@record
class InOrder:
    """Answers of one node, one a generation; `in_order` makes it."""

    answers: tuple[Any, ...]


def in_order(*answers: Any) -> InOrder:
    """Answers of the generations of one name, the first for the first one.

    Example:
        >>> script = {"mark": in_order(3, 9, 4), "answer": "42"}
    """
    return InOrder(answers)


Answer = Any
"""Text, a `Reply`, an exception, a `call` or a list of them, or a value of the output's type."""

Script = (
    Callable[[GenerateRequest, str], Answer] | Mapping[str, "Answer | InOrder"] | Iterable[Answer]
)
"""A function of request and prompt text, answers by the name of the node, or answers in order."""


class Answers:
    """A script, called once a request.

    Args:
        script: The script.
    """

    def __init__(self, script: Script) -> None:
        self._ask = script if callable(script) else None
        self._by_name = script if isinstance(script, Mapping) else None
        listed = None if callable(script) or isinstance(script, Mapping) else script
        self._rest: Iterator[Answer] = iter(listed or ())
        self._rests: dict[str, Iterator[Answer]] = {}
        self._given = 0

    def reply(self, request: GenerateRequest, prompt: str) -> Reply:
        """The answer to `request`.

        Raises:
            UsageError: The answers are used up, or there are none for its node.
        """
        if self._ask is not None:
            answer = self._ask(request, prompt)
        elif self._by_name is not None:
            answer = self._named(request, self._by_name)
        else:
            answer = self._next(request, self._rest, f"the script ends after {self._given} answers")
        self._given += 1
        return reply_of(answer)

    def _named(self, request: GenerateRequest, script: Mapping[str, Answer]) -> Answer:
        name = request.node_id.rpartition("/")[2].rpartition("#")[0]
        keys = [key for key in script if key == request.node_id or fnmatchcase(name, key)]
        if not keys:
            raise UsageError(
                f"the script has no answer for {name!r} ({request.node_id}, {request.site})",
                hint=f"It has answers for {', '.join(map(repr, script)) or 'nothing'}; "
                "'*' is for all others",
            )
        key = min(keys, key=lambda one: (one != request.node_id, one != name, -len(one)))
        answer = script[key]
        if not isinstance(answer, InOrder):
            return answer
        rest = self._rests.setdefault(key, iter(answer.answers))
        ended = f"the {len(answer.answers)} answers for {key!r} are used up"
        return self._next(request, rest, ended)

    def _next(self, request: GenerateRequest, rest: Iterator[Answer], ended: str) -> Answer:
        for answer in rest:
            return answer
        raise UsageError(
            f"{ended}, and {request.node_id} asks too",
            hint="Give the script one answer a generation, or a function",
        )


def reply_of(answer: Answer) -> Reply:
    """An answer of a script as a reply."""
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, Exception):
        return Reply(error=answer)
    if isinstance(answer, Call):
        return Reply(calls=(answer,))
    if isinstance(answer, list | tuple) and answer and all(isinstance(one, Call) for one in answer):
        return Reply(calls=tuple(answer))
    return Reply(answer)


def texts_of(reply: Reply, request: GenerateRequest, frame: CallFrame) -> list[str]:
    """The texts that an answer may stand for, the likeliest first: as it is, then as JSON.

    A model is held to one style of JSON; a script may write it in any.
    """
    if reply.calls:
        content = reply.text if isinstance(reply.text, str) else _json(reply.text, request)
        calls = ((one.name, one.arguments) for one in reply.calls)
        return [calls_text(*calls, frame=frame, content=content)]
    spec = request.constraint
    if not isinstance(reply.text, str):
        texts = [_json(reply.text, request)]
        if spec is not None and spec.kind in ("choice", "regex", "grammar"):
            texts.insert(0, option_text(reply.text))
        return texts
    texts = [reply.text]
    if spec is not None and spec.kind == "grammar":
        texts.append(_compact_inside(reply.text))
    if spec is None or spec.kind not in ("json", "calls"):
        return list(dict.fromkeys(texts))
    try:
        value = json.loads(reply.text)
    except ValueError:
        pass
    else:
        texts.append(canonical_json.dumps(value, spec.style))
    texts.append(canonical_json.dumps(reply.text, spec.style))
    return list(dict.fromkeys(texts))


def option_text(value: Any) -> str:
    """The text of a value as an option of a choice: of a member of an enum that of its value.

    Example:
        >>> option_text(7)
        '7'
    """
    return str(value.value if isinstance(value, Enum) else value)


def _compact_inside(text: str) -> str:
    """A text with each JSON object and array in it as compact JSON, as in tags."""
    found, at, decoder = list[str](), 0, json.JSONDecoder()
    while at < len(text):
        if text[at] in "{[":
            try:
                value, end = decoder.raw_decode(text, at)
            except ValueError:
                pass
            else:
                found.append(canonical_json.dumps(value))
                at = end
                continue
        found.append(text[at])
        at += 1
    return "".join(found)


def _json(value: Any, request: GenerateRequest) -> str:
    style = request.constraint.style if request.constraint is not None else "compact"
    try:
        return canonical_json.dumps(value, style)
    except ValueError as error:
        raise UsageError(
            f"the script's answer to {request.node_id} has no JSON form: {error}",
            hint="Give text, or a value that JSON can hold",
        ) from None


def calls_text(
    *calls: tuple[str, Mapping[str, Any]], frame: CallFrame = JSON_ARRAY_FRAME, content: str = ""
) -> str:
    """Tool calls as a model would write them.

    Example:
        >>> calls_text(("price", {"symbol": "IBM"}))
        '[{"name":"price","arguments":{"symbol":"IBM"}}]'
    """
    written = ((name, canonical_json.dumps(dict(arguments))) for name, arguments in calls)
    return content + frame.calls_text(written)


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

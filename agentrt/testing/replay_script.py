"""The script of a replay: each prompt gets the answer that the recording has for it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher, unified_diff
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.ids import NodeId
from agentrt.base.message_parts import genai_messages
from agentrt.prompt.message_form import function_of
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.protocol.step_output import Ledger, TokenLogprob
from agentrt.recording import RecordedAttempt, RecordedGeneration, RecordedRuns
from agentrt.recording.run_recording import tool_hash
from agentrt.testing.played_run import messages_text
from agentrt.testing.recorded_left import take
from agentrt.testing.script import Reply
from agentrt.testing.timed_output import OutputTimes, TimedOutput, TimedPart

GRACE_S = 60.0
"""Time within which a replay has to cancel a node that was cancelled in the recording."""

HOW = "If the change is meant, record anew: pytest --agentrt-record, or agentrt run --record"


class RecordingMismatch(UsageError):
    """A replay asks for something that its recording does not have."""

    default_hint = HOW


class ReplayScript:
    """Answers prompts from a recording.

    A prompt is looked up by its messages and tools. Of several equal ones, that of the same node
    goes first, then the first that was recorded; each is answered as often as it was recorded.

    Args:
        recording: The recording.
        role: Role of the engine.
    """

    def __init__(self, recording: RecordedRuns, role: str = "default") -> None:
        self._recorded = [one for one in recording.generations if one.model == role]
        self._left: dict[str, list[RecordedGeneration]] = defaultdict(list)
        for one in self._recorded:
            self._left[_key(one.messages, one.tools)].append(one)
        self._answering: dict[tuple[str, NodeId], tuple[RecordedGeneration, int]] = {}

    def __call__(self, request: GenerateRequest, prompt: str) -> Reply:
        """The recorded answer to a request.

        Raises:
            RecordingMismatch: The recording has no such prompt, or not as often.
        """
        place = (request.run_id, request.node_id)
        found, attempt = self._answering.get(place, (None, 0))
        if found is None:
            found = self._take(request)
        elif attempt == len(found.attempts):
            raise RecordingMismatch(
                f"{request.node_id} ({request.site}) asks again after {attempt} recorded answers"
            )
        self._answering[place] = (found, attempt + 1)
        return _reply(found, found.attempts[attempt])

    @property
    def unused(self) -> list[RecordedGeneration]:
        """Recorded generations that no prompt has asked for."""
        return [one for left in self._left.values() for one in left]

    def _take(self, request: GenerateRequest) -> RecordedGeneration:
        messages, tools = _prompt_of(request)
        key = _key(messages, tools)
        found = take(self._left[key], lambda one: True, request.node_id)
        if found is None:
            raise self._mismatch(request, messages, tools, key)
        return found

    def _mismatch(
        self,
        request: GenerateRequest,
        messages: list[dict[str, Any]],
        tools: dict[str, str],
        key: str,
    ) -> RecordingMismatch:
        where = f"{request.node_id} ({request.site})"
        times = sum(_key(one.messages, one.tools) == key for one in self._recorded)
        if times:
            return RecordingMismatch(
                f"the prompt of {where} is in the recording {times} times, and is asked once more"
            )
        nearest = self._nearest(request.node_id, messages)
        if nearest is None:
            return RecordingMismatch(f"the recording has no generations, and {where} asks for one")
        lines = _changes(nearest, messages, tools)
        return RecordingMismatch(
            f"the prompt of {where} is not that of {nearest.node} in the recording "
            "(- recorded, + now):\n" + "\n".join(lines) + "\nIt has no other prompt that fits"
        )

    def _nearest(
        self, node_id: NodeId, messages: Sequence[dict[str, Any]]
    ) -> RecordedGeneration | None:
        """The recorded generation that a prompt was most likely meant to be."""
        name = node_id.rpartition("/")[2].rpartition("#")[0]
        text = messages_text(messages)

        def likeness(one: RecordedGeneration) -> tuple[bool, bool, float]:
            own = one.node.rpartition("/")[2].rpartition("#")[0]
            ratio = SequenceMatcher(None, text, messages_text(one.messages)).quick_ratio()
            return one.node == node_id, own == name, ratio

        return max(self._recorded, key=likeness, default=None)


def _prompt_of(request: GenerateRequest) -> tuple[list[dict[str, Any]], dict[str, str]]:
    prompt = request.prompt
    assert isinstance(prompt, MessagePrompt), "replays send messages"
    messages = genai_messages(prompt.segments)
    system = [part for one in messages if one["role"] == "system" for part in one["parts"]]
    rest = [one for one in messages if one["role"] != "system"]
    if system:
        rest.insert(0, {"role": "system", "parts": system})
    tools = {
        tool.name: tool_hash({"type": "function", **function_of(tool)}) for tool in prompt.tools
    }
    return rest, tools


def _key(messages: Sequence[dict[str, Any]], tools: dict[str, str]) -> str:
    """The key of a prompt: ids of calls are no part of it, nor how text is cut."""
    plain = [[one["role"], _merged(one["parts"])] for one in messages]
    return json.dumps([plain, sorted(tools.items())], sort_keys=True)


_OWN = ("id", "node", "type")
"""Fields of a part that are no content of the prompt."""


def _merged(parts: Sequence[dict[str, Any]]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for part in parts:
        kind, rest = part["type"], {k: v for k, v in part.items() if k not in _OWN}
        if kind in ("text", "tool_call_response"):
            text = part["content" if kind == "text" else "response"]
            if found and found[-1][0] == kind:
                found[-1][1] += text
            else:
                found.append([kind, text])
        else:
            found.append([kind, rest])
    return found


def _changes(
    recorded: RecordedGeneration, messages: Sequence[dict[str, Any]], tools: dict[str, str]
) -> list[str]:
    before, after = messages_text(recorded.messages), messages_text(messages)
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    for name in sorted(recorded.tools.keys() | tools.keys()):
        if recorded.tools.get(name) != tools.get(name):
            how = "changed" if name in tools and name in recorded.tools else "new"
            how = how if name in tools else "not offered any more"
            lines.append(f"tool {name}: {how}")
    return lines or ["the messages are equal as text; their parts differ"]


def _reply(generation: RecordedGeneration, attempt: RecordedAttempt) -> Reply:
    """An answer with its recorded text and times."""
    logprobs = [TokenLogprob(at, one, tuple(top)) for at, one, top in attempt.logprobs]
    reasoning = {at_s: text for at_s, text, _ in attempt.reasoning}
    parts: list[TimedPart] = []
    for at_s, text, tokens in attempt.chunks:
        own = tuple(logprobs[:tokens]) if logprobs else ()
        del logprobs[:tokens]
        parts.append(TimedPart(at_s, text, tokens, logprobs=own, reasoning=reasoning.pop(at_s, "")))
    queue_s = min(attempt.spent.get("queue_s", 0.0), attempt.first_token_s)
    times = OutputTimes(
        queue_s=queue_s,
        prefill_s=attempt.first_token_s - queue_s,
        decode_s=attempt.total_s - attempt.first_token_s,
    )
    error: Exception | None = attempt.error.revived() if attempt.error is not None else None
    reason = attempt.reason
    if reason == "cancelled":
        reason = "failed"
        error = RecordingMismatch(
            f"{generation.node} was cancelled in the recording after {attempt.total_s:.3f} s, "
            "and goes on now"
        )
        times = replace(times, decode_s=times.decode_s + GRACE_S)
    output = TimedOutput(
        parts=tuple(parts),
        times=times,
        reason=reason,
        tokens=Ledger(**attempt.usage, **attempt.spent),  # type: ignore[arg-type]  # by name
        closed_early=attempt.closed_early,
        stopped_by=attempt.stopped_by,
        scores=tuple(_score(*one) for one in attempt.scores),
        unmet=attempt.unmet,
        wait_s=attempt.wait_s,
        delivered_s=attempt.delivered_s,
    )
    return Reply(error=error, output=output)


def _score(logprob: float, tokens: int) -> Any:
    from agentrt.protocol.step_output import OptionScore

    return OptionScore(logprob, tokens)

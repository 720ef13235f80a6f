"""Parts of a streamed answer, put together into its text, reasoning and figures (streaming).

Servers send tool calls separately from the text; here they are written into it in
`JSON_ARRAY_FRAME`. Reasoning is not part of the answer, whether it is reported separately or stands
in `<think>` at the beginning of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from agentrt.base.errors import AnswerRefused, EngineDied, RequestRejected
from agentrt.base.segments import JSON_ARRAY_FRAME as FRAME
from agentrt.protocol.step_output import FinishReason, OptionScore, TokenLogprob
from agentrt.remote.answers.output_ids import OutputIds
from agentrt.remote.answers.think_tag import ThinkTag
from agentrt.remote.protocols.answer_parts import (
    AnswerPart,
    CallPart,
    ContentPart,
    EndPart,
    ErrorPart,
    NamePart,
    ReasoningPart,
    RefusalPart,
    ScoresPart,
    TimesPart,
    TokenIdsPart,
    UsagePart,
)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON may write one; no UTF-8 holds it


class AnswerReader:
    """Reader of the answer to one request.

    Args:
        max_calls: Maximum number of calls; 0 sets no limit.
        by_call: Whether the answer is the arguments of the first call; if there is none, the text.
        output: Reader of an answer that comes as token ids; None for text.

    Attributes:
        name: The server's own names for the answer and its model.
        usage: Token counts reported by the server.
        times: Times reported by the server (vLLM, llama.cpp), if any.
        finish: Finish reason; None before the end.
        stopped_by: The stop string that ended it, if the server reports it (vLLM), else "".
        chunks: Number of events with text or reasoning.
        reasoning_chunks: Number of events with reasoning.
        calls: Number of calls begun.
        max_calls: Maximum number of calls; 0 sets no limit.
        full: Whether the maximum is reached: the rest is dropped.
        failed: Whether the server has sent an error.
        scores: Scores of the options of a choice, if they were asked for.
    """

    def __init__(
        self, max_calls: int = 0, *, by_call: bool = False, output: OutputIds | None = None
    ) -> None:
        self.name = NamePart()
        self.usage = UsagePart()
        self.times: TimesPart | None = None
        self.finish: FinishReason | None = None
        self.stopped_by = ""
        self.chunks = 0
        self.reasoning_chunks = 0
        self.calls = 0
        self.full = False
        self.failed = False
        self.scores: tuple[OptionScore, ...] = ()
        self.max_calls = max_calls
        self._index: int | None = None
        self._call_id = ""
        self._bare = False
        self._by_call = by_call
        self._output = output
        self._refusal = ""
        self._beside: list[str] = []
        self._tag = ThinkTag()
        self._reasoning: list[str] = []

    @property
    def reports_tokens(self) -> bool:
        """Whether the server has reported the tokens of prompt and answer."""
        return self.usage.prompt_tokens > 0 and self.usage.output_tokens > 0

    def feed_parts(self, parts: Iterable[AnswerPart]) -> str:
        """Text added by the parts of one event.

        Raises:
            EngineDied: One of them is an error of the server.
            RequestRejected: One is an error of the request, or the answer was filtered.
        """
        thoughts = len(self._reasoning)
        text = "".join([self._text(part) for part in parts])
        has_thought = len(self._reasoning) > thoughts
        self.reasoning_chunks += has_thought
        self.chunks += bool(text) or has_thought
        return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)

    def close(self, *, cut: bool = False) -> str:
        """Text that closes open calls, and text that was held back.

        Args:
            cut: Whether a limit has ended the answer, so that an open call stays open.
        """
        if self._output is not None:
            return self._output.end(at_limit=cut)
        if self._by_call:
            beside, self._beside = self._beside, []
            return "".join(beside) if not self.calls else ""
        rest = self._tag.flush()
        if self._tag.thought:
            self._reasoning.append(self._tag.take_thought())
        if self._index is None or cut:
            return rest
        self._index = None
        return self._close_call() + FRAME.last + rest

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer; without a report of the server an id or an event counts as one."""
        ids = 0 if self._output is None else self._output.count
        return self.usage.output_tokens or ids or self.chunks

    def take_tokens(self) -> tuple[tuple[int, ...], tuple[TokenLogprob, ...]]:
        """The ids since the last time, and their log-probabilities; () if it comes as text."""
        return ((), ()) if self._output is None else self._output.take_tokens()

    def take_reasoning(self) -> str:
        """The reasoning since the last time."""
        taken, self._reasoning = "".join(self._reasoning), []
        return taken

    def _text(self, part: AnswerPart) -> str:
        """Text added by one part."""
        match part:
            case ContentPart(text):
                return self._content(text)
            case TokenIdsPart(token_ids, logprobs):
                output = self._output
                return "" if output is None else output.feed_ids(token_ids, logprobs)
            case CallPart():
                return self._call(part)
            case ReasoningPart(text):
                self._reasoning.append(text)
            case RefusalPart(text):
                self._refusal += text
            case UsagePart():
                self.usage = part
            case NamePart():
                self.name = part
            case ScoresPart(scores):
                self.scores = scores
            case TimesPart():
                self.times = part
            case EndPart():
                return self._end(part)
            case ErrorPart(message, is_of_server):
                self.failed = True
                kind = EngineDied if is_of_server else RequestRejected
                raise kind(f"the engine failed in the middle: {message}")
        return ""

    def _content(self, text: str) -> str:
        if not text or self.full:
            return ""
        answer = self._tag.feed_text(text)
        if self._tag.thought:
            self._reasoning.append(self._tag.take_thought())
        if self._by_call:
            self._beside.append(answer)
            return ""
        if not answer:
            return ""
        if self._index is None:
            return answer
        self._index = None
        return self._close_call() + FRAME.last + answer

    def _call(self, part: CallPart) -> str:
        """One piece of one call: its name opens it, its arguments follow piece by piece."""
        index = self.calls if part.index is None else part.index
        is_other = bool(part.call_id and self._call_id and part.call_id != self._call_id)
        self._call_id = part.call_id or self._call_id
        text = ""
        if index != self._index or is_other:
            if self.max_calls and self.calls >= self.max_calls:
                self.full = True
            if self.full:
                return ""
            if self._by_call:
                self.full = self.calls > 0
                self._index, self.calls = index, 1
                return "" if self.full else part.arguments
            text = FRAME.first if self._index is None else self._close_call() + FRAME.between
            name = json.dumps(part.name, ensure_ascii=False)[1:-1]
            text += FRAME.before + name + FRAME.middle
            self._index, self._bare = index, True
            self.calls += 1
        elif self.full:
            return ""
        self._bare = self._bare and not part.arguments
        return text + part.arguments

    def _close_call(self) -> str:
        return ("{}" if self._bare else "") + FRAME.after

    def _end(self, part: EndPart) -> str:
        if self._refusal:
            shown = " ".join(self._refusal.split())[:200]
            raise AnswerRefused(f"the model refuses: {shown}")
        if part.reason == "filtered":
            why = f": {part.why}" if part.why else ""
            raise AnswerRefused(f"the engine filtered its own answer{why}")
        self.finish = part.reason
        self.stopped_by = part.stopped_by
        if self._output is None:
            return self.close() if self.finish == "stop" else ""
        text = self._output.end(at_limit=self.finish == "length")
        if self._output.stopped_by:
            self.finish, self.stopped_by = "stop", self._output.stopped_by
        return text

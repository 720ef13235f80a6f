"""The transcript of a run, `agentrt.transcript/1`: what was said to models and tools, and by them.

A file of JSON lines, in the order in which things ended, so that a run that is killed leaves all
that was known by then:

- `run` is the first line.
- `prompt` is one message, or a few, of a prompt: the beginning of a prompt is that of `after`, so
  that what several prompts share is written once.
- `node` is a node that has ended.
- `end` is the last line.

Fields with their default are left out. Texts are redacted and cut by then, with a mark where
something is missing. Instants are milliseconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal

from agentrt.base.record import record
from agentrt.base.segments import Role
from agentrt.protocol.events import NodeKind, Outcome

SCHEMA: Final = "agentrt.transcript/1"


@record
class TranscriptPart:
    """A part of a message, in the form of OpenTelemetry's GenAI conventions.

    Attributes:
        type: Kind of part.
        content: Text of a `text` or `reasoning`.
        id: Id of a call, in the call and in its response.
        name: Name of the tool of a call.
        arguments: Arguments of a call; an object, or text if it is no JSON.
        response: Text of the result of a call.
        node: Node whose value the text is; "" for text of the program.
    """

    type: Literal["text", "reasoning", "tool_call", "tool_call_response"]
    content: str = ""
    id: str = ""
    name: str = ""
    arguments: Any = None
    response: str = ""
    node: str = ""


@record
class TranscriptMessage:
    """A message.

    Attributes:
        role: Role of the message.
        parts: Parts of the message, in order.
    """

    role: Role
    parts: tuple[TranscriptPart, ...] = ()


@record
class TranscriptError:
    """An error.

    Attributes:
        type: Class of the error.
        message: Text of the error.
    """

    type: str
    message: str = ""


@record
class TranscriptAttempt:
    """An attempt that failed.

    Attributes:
        error: Why: the check that an answer did not pass, or the error of a tool.
        text: The answer; "" for tools.
    """

    error: str
    text: str = ""


@record
class TranscriptRun:
    """The first line.

    Attributes:
        schema: Name of the format.
        run_id: The run.
        program: Name of its program.
        source: `file:function` of the program.
        unix_ns: Start of the run on the calendar.
        record: Kind of line.
    """

    schema: Literal["agentrt.transcript/1"]
    run_id: str
    program: str
    source: str = ""
    unix_ns: int = 0
    record: Literal["run"] = "run"


@record
class TranscriptPrompt:
    """Messages of prompts.

    Attributes:
        prompt: Number in the transcript.
        after: Number of those before them; None at the beginning of a prompt.
        messages: The messages; () if they are the answer of a node.
        answer_of: The node whose answer the message is, or "".
        record: Kind of line.
    """

    prompt: int
    after: int | None = None
    messages: tuple[TranscriptMessage, ...] = ()
    answer_of: str = ""
    record: Literal["prompt"] = "prompt"


@record
class TranscriptNode:
    """A node that has ended.

    Attributes:
        node: Path in the run.
        number: Place in the order of declaration, from 0.
        kind: Kind of node.
        name: Name of the node.
        parent: The program that made it; "" for the run's own.
        site: `file:line` in the user's program.
        outcome: Kind of its end.
        declared_ms: Instant of its declaration.
        ended_ms: Instant of its end.
        error: Error of a failure.
        reason: Reason of a cancellation.
        attempts: Attempts that failed, in order.
        prompt: Number of the last messages of a generation's prompt; None without a prompt.
        is_shortened: Whether that is a shorter prompt in place of one that did not fit.
        tools: Names of the tools that its model was told of.
        answer: Answer of a generation, as far as it came; None without any.
        finish_reason: Finish reason of a generation.
        model: Model that a generation was sent to, or "".
        prompt_tokens: Length of its prompt.
        output_tokens: Length of its answer.
        shared: `joined` if an equal generation in flight gave the answer, `cached` if the response
            cache did; else "".
        call_id: Id of the call by which a model asked for a tool, or "".
        arguments: Arguments of a tool or program as JSON, or the text of a question; None if there
            are none.
        result: Result of a tool or program, the answer to a question, or the text that a tool had
            yielded when it failed; None without.
        cut_characters: Characters of its texts that were left out.
        record: Kind of line.
    """

    node: str
    number: int
    kind: NodeKind
    name: str
    parent: str = ""
    site: str = ""
    outcome: Outcome = "ok"
    declared_ms: float = 0.0
    ended_ms: float = 0.0
    error: TranscriptError | None = None
    reason: str = ""
    attempts: tuple[TranscriptAttempt, ...] = ()
    prompt: int | None = None
    is_shortened: bool = False
    tools: tuple[str, ...] = ()
    answer: TranscriptMessage | None = None
    finish_reason: str = ""
    model: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    shared: Literal["", "joined", "cached"] = ""
    call_id: str = ""
    arguments: str | None = None
    result: str | None = None
    cut_characters: int = 0
    record: Literal["node"] = "node"

    @property
    def is_rejected(self) -> bool:
        """Whether its answer is that of its last attempt, which failed."""
        if not self.attempts or self.answer is None or self.outcome == "ok":
            return False
        text = "".join(part.content for part in self.answer.parts if part.type == "text")
        return text == self.attempts[-1].text


@record
class TranscriptEnd:
    """The last line.

    Attributes:
        outcome: Kind of the run's end.
        ended_ms: Instant of the end.
        error: Error of a failure.
        nodes: Nodes of the run.
        left_out: Nodes that are not in the transcript, because it reached its limit of size.
        record: Kind of line.
    """

    outcome: Outcome
    ended_ms: float
    error: TranscriptError | None = None
    nodes: int = 0
    left_out: int = 0
    record: Literal["end"] = "end"


@record
class NodeTurn:
    """A node, and what of its prompt no earlier node has shown.

    Attributes:
        node: The node.
        messages: The new messages of its prompt.
        continues: The node whose answer comes last before them, or "".
        begins_as: An earlier node whose prompt begins in the same way, up to them; "" if none does.
    """

    node: TranscriptNode
    messages: tuple[TranscriptMessage, ...] = ()
    continues: str = ""
    begins_as: str = ""


@record
class Transcript:
    """All that was said in a run; `read_transcript` gives it.

    Attributes:
        run: The first line.
        prompts: Messages of prompts by number.
        nodes: Nodes that have ended, in the order of declaration.
        end: The last line; None if the run is under way or was killed.
    """

    run: TranscriptRun
    prompts: Mapping[int, TranscriptPrompt] = field(default_factory=dict)
    nodes: tuple[TranscriptNode, ...] = ()
    end: TranscriptEnd | None = None

    def prompt_of(self, node: TranscriptNode) -> list[TranscriptPrompt]:
        """The prompt of a node, from its beginning; [] without one."""
        found: list[TranscriptPrompt] = []
        at = node.prompt
        while at is not None:
            found.append(self.prompts[at])
            at = found[-1].after
        found.reverse()
        return found

    def turns(self) -> Iterator[NodeTurn]:
        """The nodes in the order of declaration, each with what is new in its prompt."""
        shown: dict[int, str] = {}  # the node that has shown a prompt, by its number
        answered: set[str] = set()
        for node in self.nodes:
            messages: list[TranscriptMessage] = []
            begins_as, at = "", node.prompt
            while at is not None:
                here = self.prompts[at]
                begins_as = here.answer_of if here.answer_of in answered else shown.get(at, "")
                if begins_as:
                    break
                shown[at] = node.node
                messages[:0] = here.messages
                at = here.after
            answered.add(node.node)
            yield NodeTurn(node, tuple(messages), self._answer_before(at), begins_as)

    def _answer_before(self, at: int | None) -> str:
        """The last node whose answer is in a prompt up to `at`, or ""."""
        while at is not None:
            here = self.prompts[at]
            if here.answer_of:
                return here.answer_of
            at = here.after
        return ""

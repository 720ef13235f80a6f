"""The lines of a recording, one JSON object each.

The first line names the schema and the engines. Each run follows when it has ended: its
generations, tool calls and questions in the order of their ends, then the run itself. Seconds of a
generation count from the instant at which the engine had its whole prompt.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agentrt.base.errors import AgentrtError, ErrorRecord, revive
from agentrt.base.segments import CallFrame, ThinkFrame

SCHEMA: Final = "agentrt.recording/1"

Chunk = tuple[float, str, int]
"""Seconds, text, and the number of its tokens."""


class _RecordedLine(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RecordedError(_RecordedLine):
    """An error of an engine or a tool.

    Attributes:
        type: Name of its class.
        message: Description of what happened.
        hint: Advice on what to do.
    """

    type: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: ErrorRecord | None) -> RecordedError | None:
        """The error as it is recorded; None for none."""
        return None if error is None else cls(type=error.type, message=error.message)

    def revived(self) -> AgentrtError:
        """The error, to be raised again."""
        return revive(ErrorRecord(self.type, self.message, self.hint, "", True))


class RecordedEngine(_RecordedLine):
    """An engine, as far as its outputs depend on it.

    Attributes:
        backend: `embedded`, `remote` or `scripted`.
        model: Name of its model.
        call_frame: Frame of tool calls in its outputs.
        thinking: Frame of reasoning in its outputs; None if they have none.
        seeds: Whether the same seed gives the same tokens.
    """

    backend: str
    model: str
    call_frame: dict[str, Any]
    thinking: dict[str, Any] | None = None
    seeds: bool = True

    @classmethod
    def of(
        cls,
        backend: str,
        model: str,
        call_frame: CallFrame,
        thinking: ThinkFrame | None,
        seeds: bool,
    ) -> RecordedEngine:
        """The engine with these capabilities."""
        return cls(
            backend=backend,
            model=model,
            call_frame=asdict(call_frame),
            thinking=None if thinking is None else asdict(thinking),
            seeds=seeds,
        )

    @property
    def frame(self) -> CallFrame:
        """Frame of tool calls."""
        return TypeAdapter(CallFrame).validate_python(self.call_frame)

    @property
    def think_frame(self) -> ThinkFrame | None:
        """Frame of reasoning."""
        return TypeAdapter(ThinkFrame | None).validate_python(self.thinking)


class Header(_RecordedLine):
    """The first line.

    Attributes:
        schema_: Name and version of this form.
        engines: Engines by role.
    """

    schema_: Literal["agentrt.recording/1"] = Field(alias="schema")
    engines: dict[str, RecordedEngine]


class RecordedAttempt(_RecordedLine):
    """One answer of an engine.

    Attributes:
        chunks: Text as it came.
        reasoning: Reasoning that the engine reported apart, likewise.
        reason: `stop`, `length`, `cancelled` or `failed`.
        wait_s: Time of code, runtime and network before the engine had the whole prompt, since the
            last value arrived that it, or the code of its program, waited for.
        first_token_s: Time to the first token.
        total_s: Time to the end.
        delivered_s: Time until the program had it.
        spent: Seconds of the engine's account, by their names in `Ledger`.
        usage: Tokens and cost, by their names in `Ledger`.
        closed_early: Whether it was closed by its shortest valid end.
        stopped_by: The stop string that ended it, or "".
        unmet: Why the whole answer was refused, if the engine only checks it.
        scores: Log-probability and length of each option of a scored choice.
        logprobs: Token, log-probability and likeliest alternatives of each token, if asked for.
        error: Why it failed.
    """

    chunks: list[Chunk] = []
    reasoning: list[Chunk] = []
    reason: Literal["stop", "length", "cancelled", "failed"] = "stop"
    wait_s: float = 0.0
    first_token_s: float = 0.0
    total_s: float = 0.0
    delivered_s: float = 0.0
    spent: dict[str, float] = {}
    usage: dict[str, int | str | bool] = {}
    closed_early: bool = False
    stopped_by: str = ""
    unmet: str = ""
    scores: list[tuple[float, int]] = []
    logprobs: list[tuple[int, float, list[tuple[int, float]]]] = []
    error: RecordedError | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(text for _, text, _ in self.chunks)


class RecordedGeneration(_RecordedLine):
    """A generation.

    Attributes:
        run: Id of its run.
        node: Path of its node in the run.
        site: Line of the program, as `file:line`.
        model: Role of its engine.
        messages: Prompt, as messages of OpenTelemetry's GenAI conventions.
        tools: Tools offered to the model, each with a hash of its description and schema.
        attempts: Answers; more than one if an answer failed its check.
    """

    type: Literal["generate"] = "generate"
    run: str
    node: str
    site: str = ""
    model: str = "default"
    messages: list[dict[str, Any]]
    tools: dict[str, str] = {}
    attempts: list[RecordedAttempt]


class RecordedToolAttempt(_RecordedLine):
    """One attempt of a tool.

    Attributes:
        seconds: Time that it took.
        error: Why it failed; None if it gave the result.
    """

    seconds: float
    error: RecordedError | None = None


class RecordedToolCall(_RecordedLine):
    """A tool call.

    Attributes:
        run: Id of its run.
        node: Path of its node in the run.
        name: Name of the tool.
        effects: Effect class; a `pure` tool is computed again in a replay.
        arguments: Arguments by name, bound ones left out.
        result: Result as JSON text; None without one, or if it has no JSON form.
        wait_s: Time of code and runtime before the first attempt, as of a generation.
        attempts: Attempts in order.
    """

    type: Literal["tool"] = "tool"
    run: str
    node: str
    name: str
    effects: str
    arguments: Any
    result: str | None = None
    wait_s: float = 0.0
    attempts: list[RecordedToolAttempt] = []


class RecordedQuestion(_RecordedLine):
    """A question to a person.

    Attributes:
        run: Id of its run.
        node: Path of its node in the run.
        question: Text that was shown.
        answer: Answer, text as it is and other values as JSON text; None without one, as
            where the run had no time left.
        seconds: Time until the answer, the failure or the cancellation.
        wait_s: Time of code and runtime before the question, as of a generation.
        error: Why it failed; an answer that was none is one.
    """

    type: Literal["ask"] = "ask"
    run: str
    node: str
    question: str
    answer: str | None = None
    seconds: float = 0.0
    wait_s: float = 0.0
    error: RecordedError | None = None


class RecordedRun(_RecordedLine):
    """A run, behind all that belongs to it.

    Attributes:
        run: Id of the run.
        program: Name of the program.
        outcome: `ok`, `failed` or `cancelled`.
        compound_s: Time from submit to result.
    """

    type: Literal["run"] = "run"
    run: str
    program: str
    outcome: str
    compound_s: float


Line = RecordedGeneration | RecordedToolCall | RecordedQuestion | RecordedRun
LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


class RecordedRuns(BaseModel):
    """A whole recording.

    Attributes:
        engines: Engines by role.
        generations: All generations, in the order of their ends.
        tool_calls: All tool calls, likewise.
        questions: All questions to a person, likewise.
        runs: All runs, likewise.
    """

    engines: dict[str, RecordedEngine] = {}
    generations: list[RecordedGeneration] = []
    tool_calls: list[RecordedToolCall] = []
    questions: list[RecordedQuestion] = []
    runs: list[RecordedRun] = []

"""One request in flight, over all of its attempts."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from agentrt.program.prompt_size import likely_prompt_tokens, prompt_bytes
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import ConstraintUse, OptionScore, UnmetAnswer
from agentrt.remote.answers.answer_reader import AnswerReader
from agentrt.remote.answers.usage import RequestTimes
from agentrt.remote.constraints.constraint_forms import ConstraintForm
from agentrt.remote.retries import Retries


@dataclass(slots=True, eq=False)
class Exchange:
    """One request in flight, over all of its attempts.

    Attributes:
        request: The request.
        times: Instants of the first attempt, and what the others cost.
        retries: Decides about further attempts.
        reader: Parser of the attempt under way.
        forms: Forms of its constraint that have not been refused, the surest first.
        not_sent: Sampling parameters that this request alone leaves out.
        characters: Characters of the attempt under way.
        most_characters: Characters of the longest attempt.
        text: The answer so far.
        held: Text that waits for a check of the whole answer; None if it is handed on as it comes.
        thought: Reasoning that waits for the first text of the answer.
        is_closed: Whether the answer was closed here.
        closing_characters: Characters at the end that no model wrote.
        unmet: The answer, if it does not obey its constraint.
        limit: Scope of the stream, which a deadline or the runtime ends early.
        closes_now: Whether the output is to be closed at once.
        handed_tokens: Ids of the output that were handed on, in the attempt under way.
    """

    request: GenerateRequest
    times: RequestTimes
    retries: Retries
    reader: AnswerReader = field(default_factory=AnswerReader)
    forms: list[ConstraintForm | None] = field(default_factory=list)
    not_sent: frozenset[str] = frozenset()
    characters: int = 0
    most_characters: int = 0
    text: str = ""
    held: list[str] | None = None
    thought: str = ""
    is_closed: bool = False
    closing_characters: int = 0
    unmet: UnmetAnswer | None = None
    limit: anyio.CancelScope | None = None
    closes_now: bool = False
    handed_tokens: int = 0

    @property
    def form(self) -> ConstraintForm | None:
        """The form of the constraint in the attempt under way."""
        return self.forms[0] if self.forms else None

    @property
    def constraint_use(self) -> ConstraintUse | None:
        """Use of the constraint; None without one."""
        form = self.form
        if form is None:
            return None
        return ConstraintUse(form.name, form.enforced, form.dropped, self.closing_characters)

    @property
    def scores(self) -> tuple[OptionScore, ...]:
        """Scores of the options; () if they were not asked for, or not all of them came."""
        spec, scores = self.request.constraint, self.reader.scores
        is_whole = spec is not None and len(scores) == len(spec.options)
        return scores if self.request.scored and is_whole else ()

    @property
    def likely_prompt_tokens(self) -> int:
        """Tokens of a prompt that a server has begun to answer without a report; else 0."""
        prompt = self.request.prompt
        turn = self.retries.turn
        was_answered = self.reader.chunks > 0 or (turn is not None and turn.was_sent)
        if self.reader.reports_tokens or not was_answered:
            return 0
        if isinstance(prompt, TokenPrompt):
            return len(prompt.token_ids)
        constraint = self.request.constraint
        return likely_prompt_tokens(prompt_bytes(prompt.segments, prompt.tools, constraint))

    def break_off(self, *, resumes: bool = False) -> None:
        """Prepare the next attempt; the tokens of this one are lost.

        Args:
            resumes: Whether the next one goes on behind the ids that were handed on.
        """
        times = self.times
        kept_tokens = self.handed_tokens if resumes else 0
        times.retried_tokens += max(0, self.reader.output_tokens - kept_tokens)
        if self.reader.reports_tokens or self.reader.chunks:
            times.retried_prompt_tokens += (
                self.reader.usage.prompt_tokens or self.likely_prompt_tokens
            )
            times.is_estimated |= not self.reader.reports_tokens
        self.reader = AnswerReader()
        self.characters = self.most_characters if resumes else 0
        self.handed_tokens = 0
        self.text = self.thought = ""
        self.held = None

"""One request whose prompt has holes: what is known of it, and what of that was warmed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentrt.base.ids import RequestId
from agentrt.base.sampling_params import SamplingParams
from agentrt.protocol.backend import (
    GenerateRequest,
    HoleFill,
    MessagePrompt,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import End
from agentrt.remote.warming.rendered_prefix import likely_ids

_SAMPLING = SamplingParams(max_tokens=1, temperature=0.0)


@dataclass(slots=True, eq=False)
class HeldRequest:
    """A request that waits for the rest of its prompt.

    Attributes:
        request: The request, with the part of its prompt that is known.
        held_at_s: Instant at which it came.
        known_tokens: Tokens of its prompt that were known before the last fill.
        reached_tokens: Tokens of its prompt that the cache is believed to have.
        warm_up: The warm-up under way, or None.
        warming_tokens: Length of the prefix that it computes.
        warmed_tokens: Tokens that warm-ups have computed for it.
        not_warmed: Why the last warm-up was not sent or failed; "" if there was none such.
        is_refused: Whether it was, and neither the prompt nor the room has changed since.
        prefix_tokens: Tokens of the longest prefix that a warm-up has computed, as reported.
        likely_ids: Numbers in the place of ids for a prompt of messages; None until they are read.
    """

    request: GenerateRequest
    held_at_s: float
    known_tokens: int = 0
    reached_tokens: int = 0
    warm_up: RequestId | None = None
    warming_tokens: int = 0
    warmed_tokens: int = 0
    not_warmed: str = ""
    is_refused: bool = False
    prefix_tokens: int = 0
    likely_ids: tuple[int, ...] | None = None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The known beginning of its prompt; likely ids for a prompt of messages."""
        prompt = self.request.prompt
        if isinstance(prompt, TokenPrompt):
            return prompt.token_ids
        if self.likely_ids is None:
            self.likely_ids = likely_ids(prompt.segments, prompt.tools)
        return self.likely_ids

    def fill(self, fill: HoleFill) -> None:
        """Append to its prompt."""
        self.is_refused = False
        self.known_tokens = len(self.token_ids)
        prompt: TokenPrompt | MessagePrompt
        if isinstance(self.request.prompt, MessagePrompt):
            prompt = MessagePrompt(fill.segments, self.request.prompt.tools, fill.complete)
            self.likely_ids = None
        else:
            prompt = TokenPrompt(self.token_ids + fill.token_ids, fill.complete)
        constraint = fill.constraint or self.request.constraint
        self.request = replace(
            self.request,
            prompt=prompt,
            constraint=constraint,
            traceparent=fill.traceparent or self.request.traceparent,
        )

    def update(self, info: SchedulingInfo) -> None:
        """Note new scheduling info."""
        deadline_at_s = self.request.deadline_at_s
        if info.deadline_at_s is not None:
            deadline_at_s = info.deadline_at_s
        self.request = replace(
            self.request, info=info, demanded=info.demanded, deadline_at_s=deadline_at_s
        )

    def begin_warm_up(self, request_id: RequestId, tokens: int) -> GenerateRequest:
        """The warm-up of the first tokens of its prompt.

        It is of the same run, salt and model, and has neither constraint nor deadline.
        """
        self.warm_up, self.warming_tokens = request_id, tokens
        request, constraint = self.request, None
        prompt: TokenPrompt | MessagePrompt
        if isinstance(request.prompt, MessagePrompt):
            # Servers that are not held to it are told of it, at the beginning of the chat.
            prompt, constraint = request.prompt, request.constraint
        else:
            prompt = TokenPrompt(self.token_ids[:tokens], complete=False)
        return GenerateRequest(
            request_id,
            request.run_id,
            request.node_id,
            request.site,
            prompt,
            _SAMPLING,
            constraint,
            demanded=False,
            cache_salt=request.cache_salt,
            ahead=True,
            traceparent=request.traceparent,
        )

    def end_warm_up(self, end: End) -> bool:
        """Note the end of its warm-up; whether the prefix was computed."""
        self.warm_up = None
        ledger = end.ledger
        self.is_refused = end.reason == "failed"
        if end.reason != "stop":
            self.not_warmed = end.error.message if end.error is not None else self.not_warmed
            return False
        self.reached_tokens = max(self.reached_tokens, self.warming_tokens)
        prompt_tokens = ledger.prompt_tokens or self.warming_tokens
        self.prefix_tokens = max(self.prefix_tokens, prompt_tokens)
        self.warmed_tokens += max(0, prompt_tokens - ledger.cached_tokens)
        self.not_warmed = ""
        return True

    def ended(self, end: End) -> End:
        """The end of the request with the account of its warm-ups."""
        ledger, has_ids = end.ledger, isinstance(self.request.prompt, TokenPrompt)
        known_tokens = self.known_tokens if has_ids else self.prefix_tokens
        ledger = replace(
            ledger,
            received_at_s=min(self.held_at_s, ledger.received_at_s),
            warmed_tokens=self.warmed_tokens,
            ahead_tokens=min(ledger.cached_tokens, known_tokens),
        )
        return replace(end, ledger=ledger, not_warmed=self.not_warmed)

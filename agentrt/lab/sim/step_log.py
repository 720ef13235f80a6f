"""The work of each step of a real engine, derived from its requests and records.

A step's record names its requests and sums its tokens. How many of them were whose follows from
the rules of the scheduler: a decode takes one, prompts take a chunk each, in the order of the
batch, while the step's budget lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentrt.base.errors import InternalError
from agentrt.base.ids import RequestId
from agentrt.lab.sim.costs import StepWork
from agentrt.protocol.step_output import StepRecord


@dataclass(slots=True, eq=False)
class _Asked:
    prompt_tokens: int
    computed_tokens: int = 0


class StepLog:
    """Follows the requests of one engine through its steps.

    Args:
        prompts: Length of each request's prompt; none finds anything in the cache.
        chunk_tokens: Most prompt tokens of one sequence in a step.
        step_tokens: Most tokens of a step.
    """

    def __init__(
        self, prompts: Mapping[RequestId, int], chunk_tokens: int, step_tokens: int
    ) -> None:
        self._asked = {request: _Asked(tokens) for request, tokens in prompts.items()}
        self._chunk_tokens = chunk_tokens
        self._step_tokens = step_tokens

    def work_of(self, record: StepRecord) -> StepWork:
        """The work of the next step.

        Raises:
            InternalError: The record does not agree with the rules.
        """
        left = self._step_tokens
        prefill_tokens = decode_tokens = kv_tokens = 0
        pairs = 0.0
        for request in record.requests:
            asked = self._asked[request]
            done = asked.computed_tokens
            missing = asked.prompt_tokens - done
            count = min(missing, self._chunk_tokens, left) if missing > 0 else 1
            left -= count
            asked.computed_tokens = done + count
            kv_tokens += done + count
            decode_tokens += missing <= count
            if missing > 0:
                prefill_tokens += count
                pairs += count * (done + count / 2)
        if prefill_tokens != record.prefill_tokens:
            raise InternalError(
                f"a step computed {record.prefill_tokens} prompt tokens where its requests had "
                f"{prefill_tokens}"
            )
        return StepWork(prefill_tokens, decode_tokens, kv_tokens, pairs)

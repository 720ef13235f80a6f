"""The work of each step of a real engine, derived from its requests and records.

A step's record lists its requests and the sum of their tokens. The tokens of each request follow
from the rules of the scheduler: a decode has one, prompts have a chunk each, in the order of the
batch, within the step's token budget.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.errors import InternalError
from agentrt.base.ids import RequestId
from agentrt.lab.sim.costs import StepWork
from agentrt.protocol.step_output import StepRecord


class StepLog:
    """Follows the requests of one engine through its steps.

    Args:
        prompts: Length of each request's prompt.
        cached: Prompt tokens of each request that were found in the cache.
        chunk_tokens: Most prompt tokens of one sequence in a step.
        step_tokens: Most tokens of a step.
    """

    def __init__(
        self,
        prompts: Mapping[RequestId, int],
        cached: Mapping[RequestId, int],
        chunk_tokens: int,
        step_tokens: int,
    ) -> None:
        self._prompts = prompts
        self._computed_tokens = {request: cached.get(request, 0) for request in prompts}
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
            done = self._computed_tokens[request]
            missing = self._prompts[request] - done
            count = min(missing, self._chunk_tokens, left) if missing > 0 else 1
            left -= count
            self._computed_tokens[request] += count
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

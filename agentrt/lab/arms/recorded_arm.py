"""The process of an engine that writes recorded texts: an engine's arm with `replay` beside.

Random weights never repeat a text, so drafts of theirs say nothing of real ones. Here every forward
is computed as usual, and the token sampled from its logits is that of a recorded text.

Run as `python -P -m agentrt.lab.arms.recorded_arm`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from agentrt.base.ids import RequestId
from agentrt.engine.sampling.recorded_outputs import RecordedOutputs
from agentrt.lab.arms.answering import answer_lines
from agentrt.lab.arms.drafted_tokens import DraftedTokens, hash_of
from agentrt.lab.arms.engine_arm import EngineArm
from agentrt.protocol.step_output import StepDone

Json = dict[str, Any]


class DecodeCounts:
    """Work of an engine since it last computed a part of a prompt.

    Attributes:
        began_s: Instant at which that prompt was computed.
        steps: Steps since then.
        rows: Rows of these steps, drafts included.
        tokens: Tokens written in them.
        decode_s: Seconds of these steps.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin anew."""
        self.began_s = time.perf_counter()
        self.steps = self.rows = self.tokens = 0
        self.decode_s = 0.0

    def add(self, done: StepDone) -> None:
        """Count a step, and begin anew behind one that computed a prompt."""
        if done.step is None:
            return
        if done.step.prefill_tokens:
            self.begin()
            return
        self.steps += 1
        self.decode_s += done.step.ended_at_s - done.step.started_at_s
        self.rows += len(done.step.requests) + done.step.extra_rows
        self.tokens += sum(len(delta.token_ids) for delta in done.deltas)


class RecordedArm(EngineArm):
    """One engine, and the recorded texts that it writes."""

    def open(self, settings: Json) -> Json:
        """Load the model; settings are fields of `EngineConfig`."""
        about = super().open(settings)
        self._outputs = self._executor.sampler.logits_processor = RecordedOutputs()
        return about

    def replay(self, prompts: list[list[int]], outputs: list[list[int]]) -> Json:
        """Serve all prompts at once, each with its recorded output, all of one call site."""
        core = self._core
        written: dict[RequestId, list[int]] = {}
        for prompt, output in zip(prompts, outputs, strict=True):
            request_id = self._submit(prompt, len(output), ignore_eos=True)
            self._outputs.record(request_id, output)
            written[request_id] = []
        counts = DecodeCounts()
        drafts = DraftedTokens()
        while core.has_work():
            done = core.step()
            if done is None:
                continue
            counts.add(done)
            for delta in done.deltas:
                written[delta.request_id] += delta.token_ids
            for end in done.ends:
                if end.error is not None:
                    raise RuntimeError(f"{end.error.type}: {end.error.message}")
                self._outputs.forget(end.request_id)
                drafts.add(end.ledger)
        seconds = time.perf_counter() - counts.began_s
        if list(written.values()) != outputs:
            raise RuntimeError("an output is not the recorded one")
        return {
            "seconds": seconds,
            "tokens": counts.tokens,
            "steps": counts.steps,
            "rows": counts.rows,
            "prefill_s": 0.0,
            "decode_s": counts.decode_s,
            "accepted": dict(drafts.accepted),
            "rejected": dict(drafts.rejected),
            "output_hash": hash_of(list(written.values())),
        }


if __name__ == "__main__":
    asyncio.run(answer_lines(RecordedArm()))

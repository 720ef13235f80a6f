"""The process of our engine's arm: an engine core as the product runs it.

Run as `python -P -m agentrt.lab.arms.engine_arm`; it answers `open`, `round`, `idle` and
`roofline`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agentrt.base.clock import MonotonicClock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.engine.ops.cpu_threads import forget_choice
from agentrt.engine.ops.roofline import roofline
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt.lab.arms.answering import answer_lines
from agentrt.lab.arms.drafted_tokens import DraftedTokens
from agentrt.lab.arms.engine_settings import config_of
from agentrt.lab.arms.gpu_idle import watched
from agentrt.protocol.backend import GenerateRequest, TokenPrompt

Json = dict[str, Any]
_SETTLING_STEPS = 4
_WATCHED_STEPS = 24
_IDLE_NEW_TOKENS = 64
"""Length of outputs that last through all of these steps."""


class EngineArm:
    """One engine, and the rounds that it computes."""

    def open(self, settings: Json) -> Json:
        """Load the model.

        Args:
            settings: Fields of `EngineConfig`, `constrained`, and `known_threads`: whether to
                compute with the threads that an arm before has measured.
        """
        settings = {**settings}
        self._constrained = bool(settings.pop("constrained", False))
        known_threads = bool(settings.pop("known_threads", False))
        config = config_of(settings)
        if not known_threads:  # a choice of threads made beside other work says little of now
            forget_choice(config)
        clock = MonotonicClock()
        self._executor = ModelExecutor(config, clock)
        self._core = EngineCore(config, clock, self._executor)
        self._requests = 0
        runner = self._executor.runner
        return {**asdict(runner.model.report), "threads": asdict(runner.threads)}

    def round(
        self,
        prompts: list[list[int]],
        new_tokens: int,
        shared: int,
        ignore_eos: bool = False,
        temperature: float = 0.0,
        adapters: Sequence[str] | None = None,
    ) -> Json:
        """Serve all prompts at once, each with its index as seed.

        `shared` is for arms that do not find prefixes themselves; `adapters` names one a prompt.
        """
        core = self._core
        drafts = DraftedTokens()
        outputs: dict[RequestId, list[int]] = {}
        began_s = time.perf_counter()
        for seed, prompt in enumerate(prompts):
            request_id = self._submit(
                prompt,
                new_tokens,
                ignore_eos,
                temperature=temperature,
                seed=seed,
                adapter=adapters[seed] if adapters else "",
            )
            outputs[request_id] = []
        ended_s = prefilled_s = began_s
        decode_s, decode_steps, cached_tokens = 0.0, 0, 0
        while core.has_work():
            done = core.step()
            if done is None:
                continue
            before_s, ended_s = ended_s, time.perf_counter()
            for delta in done.deltas:
                outputs[delta.request_id] += delta.token_ids
            for end in done.ends:
                if end.error is not None:
                    raise RuntimeError(f"{end.error.type}: {end.error.message}")
                cached_tokens += end.ledger.cached_tokens
                drafts.add(end.ledger)
            if done.step is not None and done.step.prefill_tokens:
                prefilled_s = ended_s
            elif done.step is not None and done.step.decode_tokens == len(prompts):
                decode_s += ended_s - before_s
                decode_steps += 1
        return {
            "prefill_s": prefilled_s - began_s,
            "decode_s": decode_s,
            "decode_steps": decode_steps,
            "outputs": list(outputs.values()),
            "cached_tokens": cached_tokens,
            "accepted": dict(drafts.accepted),
            "rejected": dict(drafts.rejected),
        }

    def idle(self, prompts: list[list[int]]) -> Json:
        """How idle the GPU is while all prompts are decoded, a few steps after their first."""
        core = self._core
        for prompt in prompts:
            self._submit(prompt, _IDLE_NEW_TOKENS, False)
        done = core.step()
        while done is None or done.step is None or done.step.decode_tokens < len(prompts):
            done = core.step()
        for _ in range(_SETTLING_STEPS):
            core.step()

        def decode() -> None:
            for _ in range(_WATCHED_STEPS):
                core.step()

        found = watched(decode)
        while core.has_work():
            core.step()
        return {**asdict(found), "idle_share": found.idle_share}

    def roofline(self, device: str, dtype: str) -> Json:
        """The machine's rates with this process's threads and device."""
        return roofline(device, dtype)

    def _submit(
        self,
        prompt: list[int],
        new_tokens: int,
        ignore_eos: bool,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        adapter: str = "",
    ) -> RequestId:
        self._requests += 1
        request = GenerateRequest(
            request_id=RequestId(self._requests),
            run_id=RunId("bench"),
            node_id=NodeId(f"n{self._requests}"),
            site="bench",
            prompt=TokenPrompt(tuple(prompt)),
            sampling=SamplingParams(
                max_tokens=new_tokens, ignore_eos=ignore_eos, temperature=temperature, seed=seed
            ),
            constraint=_long_json(new_tokens) if self._constrained else None,
            adapter=adapter,
        )
        self._core.submit(request)
        return request.request_id


def _long_json(tokens: int) -> ConstraintSpec:
    """An array of more records, of a name and a number, than fit into so many tokens."""
    fields = {"name": {"type": "string", "maxLength": 40}, "value": {"type": "number"}}
    record = {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
    return ConstraintSpec(
        "json", json.dumps({"type": "array", "items": record, "minItems": tokens})
    )


if __name__ == "__main__":
    asyncio.run(answer_lines(EngineArm()))

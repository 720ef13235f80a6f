"""Our arm: an engine core in a process of its own, as the product runs it.

Run as `python -P -m agentrt.lab.arms.engine_arm`; each line of standard input is a question, each
line
of standard output its answer.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.engine.ops.cpu_threads import forget_choice
from agentrt.engine.ops.roofline import roofline
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt.lab.arms.gpu_idle import watched
from agentrt.protocol.backend import GenerateRequest, TokenPrompt

_SETTLING_STEPS = 4
_WATCHED_STEPS = 24
_IDLE_NEW_TOKENS = 64
"""Outputs that last through all of it."""


class EngineArm:
    """One engine, and the rounds it is asked for."""

    def __init__(self, settings: dict[str, Any]) -> None:
        settings = {**settings, "model_path": Path(settings["model_path"])}
        self._constrained = bool(settings.pop("constrained", False))
        config = EngineConfig(**settings)
        forget_choice(config)  # what was measured beside other work says little of now
        clock = MonotonicClock()
        executor = ModelExecutor(config, clock)
        self._runner = executor.runner
        self._core = EngineCore(config, clock, executor)
        self._serial = 0

    def round(
        self, prompts: list[list[int]], new_tokens: int, *, ignore_eos: bool = False
    ) -> dict[str, Any]:
        """Serve all prompts at once; a sample, with the ids of each output."""
        core = self._core
        outputs: dict[RequestId, list[int]] = {}
        began_s = time.perf_counter()
        for prompt in prompts:
            request = self._request(prompt, new_tokens, ignore_eos)
            outputs[request.request_id] = []
            core.submit(request)
        ends_s = [began_s]
        prefilled_s = began_s
        decode_s, decode_steps, cached_tokens = 0.0, 0, 0
        while core.has_work():
            done = core.step()
            if done is None:
                continue
            now_s = time.perf_counter()
            step = done.step
            for delta in done.deltas:
                outputs[delta.request_id] += delta.token_ids
            for end in done.ends:
                if end.error is not None:
                    raise RuntimeError(f"{end.error.type}: {end.error.message}")
                cached_tokens += end.ledger.cached_tokens
            if step is not None and step.prefill_tokens:
                prefilled_s = now_s
            elif step is not None and step.decode_tokens == len(prompts):
                decode_s += now_s - ends_s[-1]
                decode_steps += 1
            ends_s.append(now_s)
        return {
            "prefill_s": prefilled_s - began_s,
            "decode_s": decode_s,
            "decode_steps": decode_steps,
            "outputs": list(outputs.values()),
            "cached_tokens": cached_tokens,
        }

    def idle(self, prompts: list[list[int]]) -> dict[str, Any]:
        """How idle the GPU is while all prompts are decoded, a few steps after their first."""
        core = self._core
        for prompt in prompts:
            core.submit(self._request(prompt, _IDLE_NEW_TOKENS, False))
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
        return {**dataclasses.asdict(found), "idle_share": found.idle_share}

    def about(self) -> dict[str, Any]:
        """What the engine says of itself."""
        report, threads = self._runner.model.report, self._runner.threads
        return {**dataclasses.asdict(report), "threads": dataclasses.asdict(threads)}

    def _request(self, prompt: list[int], new_tokens: int, ignore_eos: bool) -> GenerateRequest:
        self._serial += 1
        return GenerateRequest(
            request_id=RequestId(self._serial),
            run_id=RunId("bench"),
            node_id=NodeId(f"n{self._serial}"),
            site="bench",
            prompt=TokenPrompt(tuple(prompt)),
            sampling=SamplingParams(max_tokens=new_tokens, ignore_eos=ignore_eos),
            constraint=_long_json(new_tokens) if self._constrained else None,
        )


def _long_json(tokens: int) -> ConstraintSpec:
    """Records of a name and a number, more of them than fit into so many tokens."""
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


def answer_all(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each line of standard input; an error is an answer too."""
    for line in sys.stdin:
        try:
            told = answer(json.loads(line))
        except AgentrtError as error:
            told = {"error": error.message, "hint": error.hint}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Questions: `open` first, then `round`, `idle` and `ceilings`."""
    arms: list[EngineArm] = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        match question["do"]:
            case "open":
                arms.append(EngineArm(question["settings"]))
                return arms[-1].about()
            case "round":
                return arms[-1].round(
                    question["prompts"],
                    question["new_tokens"],
                    ignore_eos=question.get("ignore_eos", False),
                )
            case "idle":
                return arms[-1].idle(question["prompts"])
            case "ceilings":
                return dataclasses.asdict(roofline(question["device"], question["dtype"]))
            case other:
                return {"error": f"no question is called {other!r}"}

    answer_all(answer)


if __name__ == "__main__":
    main()

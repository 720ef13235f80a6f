"""An engine that computes nothing: the scheduler, the pages and the policies are the engine's own.

Time is virtual. A step takes as long whatever is in it, unless costs are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentrt.base.config import EngineConfig, PolicyName
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.prompt_yield import MIN_STEPS
from agentrt.engine.scheduling.scheduler import Scheduler
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import Sequence
from agentrt.kv_cache import PagePool
from agentrt.prompt import Detokenizer
from agentrt.prompt.stop_strings import StopStrings
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import StepRecord
from agentrt.scheduler.estimates.step_model import StepTime

STEP_S = 1.0
PAGE = 4


class NoTables:
    def write(self, slot: int, at: int, pages: list[Any]) -> None:
        return


@dataclass
class Job:
    """One program of one generation."""

    prompt_tokens: int
    output_tokens: int
    facts: dict[str, Any]
    submitted_s: float = 0.0
    ended_s: float | None = None


class Engine:
    """An engine that computes nothing, step by step."""

    def __init__(self, policy: PolicyName, *, pages: int, slots: int, step_tokens: int) -> None:
        self.config = EngineConfig(
            Path("none"),
            kv_pages=pages,
            page_tokens=PAGE,
            max_running=slots,
            step_tokens=step_tokens,
            prefill_chunk_tokens=step_tokens,
            policy=policy,
        )
        self.allocator = KvAllocator(
            PagePool(pages), PAGE, NoTables(), lambda _source, _target: None, slots
        )
        self.scheduler = Scheduler(self.config, self.allocator)
        self.jobs: list[Job] = []
        self.served: list[RequestId] = []
        self.now_s = 0.0
        self.costs = StepTime(STEP_S, 0.0, 0.0, 0.0)

    def submit(self, job: Job) -> None:
        number = len(self.jobs)
        self.jobs.append(job)
        job.submitted_s = self.now_s
        facts = SchedulingInfo(
            RequestId(number),
            demanded=True,
            run_started_at_s=self.now_s,
            run_id=RunId(f"run {number}"),
            waiting=1,
            as_of_s=self.now_s,
        )
        tokens = [number * 10_000 + at for at in range(job.prompt_tokens)]
        request = GenerateRequest(
            request_id=RequestId(number),
            run_id=facts.run_id,
            node_id=NodeId("n"),
            site="test",
            prompt=TokenPrompt(tuple(tokens)),
            sampling=SamplingParams(max_tokens=job.output_tokens),
            info=replace(facts, **job.facts),
        )
        account = RequestMetrics(self.now_s, self.now_s, completed_at_s=self.now_s)
        sequence = Sequence(
            request=request,
            serial=number,
            info=self.scheduler.initial_info(request, self.now_s),
            tokens=tokens,
            prompt_tokens=len(tokens),
            complete=True,
            metrics=account,
            detokenizer=Detokenizer(()),
            stops=StopStrings(()),
            max_output_tokens=job.output_tokens,
        )
        self.scheduler.add_sequence(sequence)

    def learn_costs(self, costs: StepTime) -> None:
        """Let the engine have seen steps of these costs, and take as long from now on."""
        self.costs = costs
        for number in range(MIN_STEPS):
            prefill_tokens, decode_tokens = 8 * (number % 5), 1 + number % 3
            took_s = costs.step_s(prefill_tokens, decode_tokens)
            step = StepRecord(number, 0.0, took_s, prefill_tokens, decode_tokens, ())
            self.scheduler.prompt_yield.note_step(step)

    def step(self) -> dict[int, int]:
        """One step: how many tokens of a prompt it computed, by job; others decoded."""
        shares = self.scheduler.schedule(self.now_s)
        assert not self.scheduler.unschedulable
        self.served = [sequence.request.request_id for sequence, _ in shares]
        prefill_tokens = sum(count for sequence, count in shares if sequence.is_prefilling)
        self.now_s += self.costs.step_s(prefill_tokens, len(shares))
        prompts: dict[int, int] = {}
        for sequence, count in shares:
            number = sequence.request.request_id
            if sequence.is_prefilling:
                prompts[number] = count
            sequence.computed_tokens += count
            self.allocator.cache_prefix(sequence)
            if sequence.computed_tokens < len(sequence.tokens):
                continue
            sequence.tokens.append(number * 10_000 + len(sequence.tokens))
            if sequence.output_tokens == self.jobs[number].output_tokens:
                self.scheduler.remove_sequence(sequence)
                self.jobs[number].ended_s = self.now_s
        return prompts

"""What planning a step costs: `python tests/engine/planning_cost.py [running]`.

That many requests decode, with a context of 1,000 to 4,000 tokens each, on a machine that packs
batches as the real one does and then computes nothing. Timed apart: sharing out tokens (order,
pages, block tables), packing (with the groups of siblings), sampling, and collecting the output.
Then sharing out while as many wait, under each policy; then the radix tree alone: matching 4,096
tokens among 400 siblings under one prefix. Median and least of 300 steps, in microseconds: on a
machine that does other things, too, the least says more.
"""

import random
import sys
from dataclasses import replace
from statistics import median
from time import perf_counter
from types import SimpleNamespace

import torch

from agentrt import embedded
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig, PolicyName
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.batch.batch import BatchPacker
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.batch.shared_prefix import SharedPrefixes
from agentrt.engine.core import EngineCore
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt.engine.scheduling.waiting_queue import WaitingQueue
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.kv_cache import PagePool, RadixTree, key_of
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo, TokenPrompt

STEPS = 300
VOCABULARY = 1024


class Idle:
    """Packs, and computes nothing."""

    def __init__(self, config: EngineConfig) -> None:
        layout = KvLayout(1, 1, 1, config.page_tokens, torch.float32, torch.device("cpu"))
        self.model = SimpleNamespace(
            layout=layout,
            logits_size=VOCABULARY,
            window_tokens=0,
            name="idle",
            report=None,
            rope_threshold=None,
            page_bytes=layout.page_bytes,
            kernels=TorchKernels(),
        )
        self.kv = KvCache(layout, config.kv_pages)
        self.tables = BlockTables(config.max_running, 512, self.kv)
        last = torch.zeros(config.max_running, dtype=torch.int64)
        self.siblings = SharedPrefixes(self.tables, config.page_tokens)
        self.packer = BatchPacker(
            self.kv,
            self.tables,
            last,
            max_tokens=config.step_tokens,
            max_sequences=config.max_running,
        )
        self.threads = None
        self.expert_load = self.expert_offload = self.layer_states = self.kv_arrival = None
        self.pack_us: list[float] = []

    def forward(self, parts: list[SequenceSlice]) -> torch.Tensor:
        began = perf_counter()
        batch = self.packer.pack(parts, self.siblings.find(parts))
        self.pack_us.append((perf_counter() - began) * 1e6)
        logits = torch.zeros(batch.logit_rows.shape[0], VOCABULARY)
        logits[:, 5] = 1.0
        return logits

    def remember_tokens(self, slots: list[int], token_ids: torch.Tensor) -> None:
        return


def timed(owner: object, name: str) -> list[float]:
    """Replace a method by one that notes its microseconds."""
    plain, spent = getattr(owner, name), []

    def noting(*args: object, **kwargs: object) -> object:
        began = perf_counter()
        try:
            return plain(*args, **kwargs)
        finally:
            spent.append((perf_counter() - began) * 1e6)

    setattr(owner, name, noting)
    return spent


def engine(running: int, spare_slots: int = 0) -> tuple[EngineCore, Idle]:
    config = EngineConfig(
        embedded.path(),
        kv_pages=300 * running + 300,
        max_running=running + spare_slots,
        step_tokens=4096,
    )
    machine = Idle(config)
    clock = MonotonicClock()
    executor = ModelExecutor(config, clock, runner=machine)  # type: ignore[arg-type]
    return EngineCore(config, clock, executor), machine


def steps(running: int) -> dict[str, list[float]]:
    core, machine = engine(running)
    source = random.Random(0)
    shared = [source.randrange(60) for _ in range(800)]
    for number in range(running):
        own = [source.randrange(60) for _ in range(200 + number * 3000 // running)]
        core.submit(
            GenerateRequest(
                request_id=RequestId(number),
                run_id=RunId("run"),
                node_id=NodeId(f"n{number}"),
                site="cost",
                prompt=TokenPrompt((*shared, *own)),
                sampling=SamplingParams(max_tokens=STEPS + 500),
            )
        )
    while core.decode_forwards == 0 or any(one.is_prefilling for one in core.scheduler):
        core.step()
    plan = timed(core.scheduler, "schedule")
    settle = timed(core, "_update_waiting")
    launch = timed(core._steps, "launch")
    complete = timed(core._steps, "complete")
    machine.pack_us.clear()
    whole = []
    for _ in range(STEPS):
        began = perf_counter()
        core.step()
        whole.append((perf_counter() - began) * 1e6)
    core.close()
    return {
        "settle": settle,
        "plan": plan,
        "launch without packing": [
            whole - packing for whole, packing in zip(launch, machine.pack_us, strict=True)
        ],
        "pack": machine.pack_us,
        "complete": complete,
        "whole step": whole,
    }


def planning(running: int, waiting: int, policy: PolicyName, *, slots: bool) -> list[float]:
    """Sharing out tokens while others wait: for slots, or for memory that there is not."""
    core, _ = engine(running, spare_slots=waiting if slots else 0)
    core.scheduler.queue = WaitingQueue(replace(core._config, policy=policy), core.allocator)
    source = random.Random(0)
    shared = [source.randrange(60) for _ in range(800)]
    for number in range(running + waiting):
        if number == running:
            while core.decode_forwards == 0 or any(one.is_prefilling for one in core.scheduler):
                core.step()
            held = core.allocator.pool.allocate(core.allocator.pool.free_pages - running)
        own = [source.randrange(60) for _ in range(1000)]
        facts = SchedulingInfo(
            RequestId(number),
            demanded=True,
            run_started_at_s=number * 0.1,
            rest_s=source.random() * 10,
            waiting=1,
            as_of_s=core._clock.now_s(),
        )
        core.submit(
            GenerateRequest(
                request_id=RequestId(number),
                run_id=RunId(f"run {number // 4}"),
                node_id=NodeId(f"n{number}"),
                site="cost",
                prompt=TokenPrompt((*shared, *own)),
                sampling=SamplingParams(max_tokens=STEPS + 500),
                info=facts,
            )
        )
    spent = []
    for _ in range(STEPS):
        began = perf_counter()
        core.scheduler.schedule(core._clock.now_s())
        spent.append((perf_counter() - began) * 1e6)
    assert len(core.scheduler.running) == running
    core.allocator.pool.free(held)
    core.close()
    return spent


def waiting(running: int) -> dict[str, list[float]]:
    policies: tuple[PolicyName, ...] = ("fcfs", "lpm", "plas", "rwa")
    return {
        f"plan, as many wait for {what}, {policy}": planning(running, running, policy, slots=slots)
        for what, slots in (("slots", False), ("memory", True))
        for policy in policies
    }


def radix() -> dict[str, list[float]]:
    source = random.Random(1)
    prefix = [source.randrange(50_000) for _ in range(3000)]
    tree = RadixTree(PagePool(40_000), 16)
    keys = [key_of([*prefix, *(source.randrange(50_000) for _ in range(1096))]) for _ in range(400)]
    for key in keys:
        at = tree.match_prefix(key).matched_tokens // 16
        tree.insert(key, [*tree.match_prefix(key).pages, *tree._pool.allocate(256 - at)])
    found = []
    for key in keys:
        began = perf_counter()
        tree.match_prefix(key)
        found.append((perf_counter() - began) * 1e6)
    return {"match 4,096 tokens": found}


def account() -> dict[str, list[float]]:
    ours = RequestMetrics(received_at_s=0.0, recorded_until_s=0.0)
    spent = []
    for _ in range(STEPS):
        began = perf_counter()
        for at in range(100):
            ours.record_step("decode", at * 1e-3, 0.0, 64)
        spent.append((perf_counter() - began) * 1e4)
    return {"account, a step and request": spent}


if __name__ == "__main__":
    torch.set_num_threads(1)
    running = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    for name, cost_us in {**steps(running), **waiting(running), **radix(), **account()}.items():
        print(f"{name:42} {median(cost_us):8.1f} {min(cost_us):8.1f} us")

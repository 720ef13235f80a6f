"""Arms in one process that take turns: our engine by weights, transformers by implementation.

All compute with the same number of threads; those of an arm that waits sleep.
"""

from __future__ import annotations

import itertools
import os
import random
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.cpu_cores import cores
from agentrt.base.record import record
from agentrt.lab.arms import peer_files
from agentrt.lab.arms.engine_arm import EngineArm
from agentrt.lab.bench.experts.result import ExpertsPoint
from agentrt.lab.bench.flags import ExpertsFlags
from agentrt.lab.errors import BenchFailed
from agentrt.lab.flags import names, numbers
from agentrt.lab.progress import WorkPace, log

OURS = "ours"
PEER = "transformers grouped_mm"
OTHERS = ("eager", "batched_mm")
"""Further ways of transformers to compute experts."""
Round = Callable[[list[list[int]], int], dict[str, Any]]


@record
class ExpertArms:
    """The arms by name.

    Attributes:
        rounds: The function of each arm that computes a batch.
        threads: Threads of every arm.
    """

    rounds: Mapping[str, Round]
    threads: int

    @classmethod
    def open(cls, model: Path, flags: ExpertsFlags) -> ExpertArms:
        """Load every arm's model.

        Args:
            model: Checkpoint directory.
            flags: Weights of our arms, dtype and threads.
        """
        threads = flags.threads or cores()
        batches = numbers(flags.batch, "--batch")
        rounds: dict[str, Round] = {}
        bounds = ["", *(one for one in names(flags.memory) if one)]
        for weights, memory in itertools.product(names(flags.weights), bounds):
            log(f"loading ours with weights={weights}, expert_memory={memory or 'all'}")
            arm = EngineArm()
            arm.open(
                {
                    "model_path": str(model),
                    "dtype": flags.dtype,
                    "weights": weights,
                    "expert_memory": memory,
                    "threads": threads,
                    "self_check": "never",
                    "max_running": max(batches),
                    "kv_pages": max(batches) * -(-(flags.prompt + flags.new + 16) // 16),
                }
            )
            name = f"{OURS} {flags.dtype if weights == 'checkpoint' else weights}"
            rounds[f"{name} in {memory}" if memory else name] = _ours(arm)
        log("loading transformers")
        batch = _transformers(
            {
                "model": str(model),
                "dtype": flags.dtype,
                "device": "cpu",
                "threads": threads,
                "experts": "grouped_mm",
            }
        )
        for implementation in ("grouped_mm", *names(flags.others)):
            if implementation:
                rounds[f"transformers {implementation}"] = _theirs(batch, implementation)
        return cls(rounds, threads)


def measure(arms: ExpertArms, shape: ModelShape, flags: ExpertsFlags) -> Iterator[ExpertsPoint]:
    """Every arm once a round, in an order that turns round each time; the first round warms up.

    Raises:
        BenchFailed: Arms produced unlike numbers of tokens.
    """
    batches = numbers(flags.batch, "--batch")
    pace = WorkPace("turns", len(batches) * (1 + flags.counted) * len(arms.rounds))
    for batch in batches:
        load = os.getloadavg()[0]
        samples: dict[str, list[float]] = {name: [] for name in arms.rounds}
        for number in range(1 + flags.counted):
            draw = random.Random(f"{batch} {number}")
            prompts = [
                [draw.randrange(shape.vocabulary) for _ in range(flags.prompt)]
                for _ in range(batch)
            ]
            order = list(arms.rounds) if number % 2 else list(arms.rounds)[::-1]
            for name in order:
                found = arms.rounds[name](prompts, flags.new)
                if any(len(ids) != flags.new for ids in found["outputs"]):
                    raise BenchFailed(f"{name} did not produce {flags.new} tokens a sequence")
                step_s = found["decode_s"] / found["decode_steps"]
                pace.done(f"B={batch} round {number}: {name} {1e3 * step_s:.1f} ms a step")
                if number:
                    samples[name].append(step_s)
        yield ExpertsPoint(
            batch=batch,
            threads=arms.threads,
            peer=PEER,
            samples={name: tuple(times) for name, times in samples.items()},
            load=(load, os.getloadavg()[0]),
            versions={name: version(name) for name in ("torch", "transformers")},
        )


def _ours(arm: EngineArm) -> Round:
    return lambda prompts, new: arm.round(prompts, new, 0, ignore_eos=True)


def _theirs(batch: Any, implementation: str) -> Round:
    def compute(prompts: list[list[int]], new: int) -> dict[str, Any]:
        batch.use_experts(implementation)
        found: dict[str, Any] = batch.round(prompts, new, 0)
        return found

    return compute


def _transformers(settings: dict[str, Any]) -> Any:
    """The static batch of the peers' script, in this process."""
    folder = Path(peer_files.__file__).parent / "peers"
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(folder / "hf_arm.py"))["PaddedBatch"](settings)
    finally:
        sys.path.pop(0)

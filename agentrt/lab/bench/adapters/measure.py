"""Rounds of one engine in one process, whose sequences have no adapter, one, or one each."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import save_file

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.config import LoraAdapter
from agentrt.base.cpu_cores import cores
from agentrt.lab.arms.engine_arm import EngineArm
from agentrt.lab.bench.experts.result import PointResult
from agentrt.lab.bench.flags import AdaptersFlags
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.weights import weights_of
from agentrt.lab.errors import BenchFailed
from agentrt.lab.flags import names
from agentrt.lab.progress import log

NONE, ONE = "no adapter", "one adapter"


def several(count: int) -> str:
    """Name of the arm with so many adapters."""
    return f"{count} adapters"


def measure(shape: ModelShape, flags: AdaptersFlags, folder: Path) -> Iterator[PointResult]:
    """Every arm once a round, in an order that turns round each time; the first round warms up.

    Args:
        shape: Shape of the model.
        flags: Adapters, batch and rounds.
        folder: Place for the adapters.

    Raises:
        BenchFailed: A sequence ended early.
    """
    adapters = [
        LoraAdapter(f"a{at}", random_adapter(shape, flags.rank, folder / f"a{at}", seed=at))
        for at in range(flags.adapters)
    ]
    batch, threads = flags.batch, flags.threads or cores()
    chosen = {
        NONE: [""] * batch,
        ONE: [adapters[0].name] * batch,
        several(flags.adapters): [adapters[at % len(adapters)].name for at in range(batch)],
    }
    for weights in names(flags.weights):
        log(f"loading weights={weights}")
        arm = EngineArm()
        arm.open(
            {
                "model_path": str(checkpoint(shape)),
                "dtype": flags.dtype,
                "weights": weights,
                "adapters": tuple(adapters),
                "threads": threads,
                "self_check": "never",
                "max_running": batch,
                "kv_pages": 3 * batch * -(-(flags.prompt + flags.new + 16) // 16),
            }
        )
        load = os.getloadavg()[0]
        samples: dict[str, list[float]] = {name: [] for name in chosen}
        for number in range(1 + flags.counted):
            draw = random.Random(f"{weights} {number}")
            prompts = [
                [draw.randrange(shape.vocabulary) for _ in range(flags.prompt)]
                for _ in range(batch)
            ]
            for name in list(chosen) if number % 2 else list(chosen)[::-1]:
                found = arm.round(prompts, flags.new, 0, ignore_eos=True, adapters=chosen[name])
                if any(len(ids) != flags.new for ids in found["outputs"]):
                    raise BenchFailed(f"{name} did not produce {flags.new} tokens a sequence")
                if number:
                    samples[name].append(found["decode_s"] / found["decode_steps"])
        yield PointResult(
            batch=batch,
            threads=threads,
            peer=several(flags.adapters),
            samples={f"{name}": tuple(times) for name, times in samples.items()},
            load=(load, os.getloadavg()[0]),
            versions={"torch": version("torch"), "weights": weights},
        )


def random_adapter(shape: ModelShape, rank: int, path: Path, *, seed: int) -> Path:
    """An adapter of all projections of a shape's layers, as PEFT writes it."""
    source = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for spec in weights_of(shape):
        if not spec.name.endswith("_proj.weight"):
            continue
        outputs, inputs = spec.shape
        at = f"base_model.model.{spec.name.removesuffix('.weight')}.lora_"
        tensors[f"{at}A.weight"] = torch.randn(rank, inputs, generator=source) * inputs**-0.5
        tensors[f"{at}B.weight"] = torch.randn(outputs, rank, generator=source) * 0.01
    path.mkdir(parents=True)
    save_file(tensors, path / "adapter_model.safetensors")
    modules = sorted({name.split(".")[-3] for name in tensors})
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": modules}
    (path / "adapter_config.json").write_text(json.dumps(config))
    return path

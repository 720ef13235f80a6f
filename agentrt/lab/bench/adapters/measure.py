"""Decode steps of one engine, whose sequences have no adapter, one, or one each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors.numpy import save_file

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.config import EngineConfig, LoraAdapter
from agentrt.base.cpu_cores import cores
from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.runner.model_executor import TILE_TOKENS
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.adapters.result import NONE, ONE, SEVERAL, AdaptersPoint
from agentrt.lab.bench.flags import AdaptersFlags
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.weights import weights_of
from agentrt.lab.flags import names
from agentrt.lab.progress import WorkPace, log

_WARMING_STEPS = 3
FIRST_TOKEN = 300
"""Token of the first sequence; each other one has the next."""


def measure(shape: ModelShape, flags: AdaptersFlags, folder: Path) -> Iterator[AdaptersPoint]:
    """Every arm computes a step in turn, so that all see the same machine; some steps warm up.

    Args:
        shape: Shape of the model.
        flags: Adapters, batch and steps.
        folder: Place for the adapters.
    """
    adapters = tuple(
        LoraAdapter(f"a{at}", random_adapter(shape, flags.rank, folder / f"a{at}", seed=at))
        for at in range(flags.adapters)
    )
    batch, threads = flags.batch, flags.threads or cores()
    chosen = {
        NONE: [0] * batch,
        ONE: [1] * batch,
        SEVERAL: [1 + at % len(adapters) for at in range(batch)],
    }
    pages = flags.prompt // PAGE_TOKENS + 1
    formats = names(flags.weights)
    pace = WorkPace("steps", len(formats) * (_WARMING_STEPS + flags.counted) * len(chosen))
    for weights in formats:
        log(f"loading weights={weights}")
        config = EngineConfig(
            checkpoint(shape),
            dtype=cast(Any, flags.dtype),
            weights=cast(Any, weights),
            adapters=adapters,
            threads=threads,
            self_check="never",
            max_running=batch,
            kv_pages=batch * pages,
        )
        runner = ModelRunner(config.sized(), TILE_TOKENS)
        for slot in range(batch):
            own = range(slot * pages, (slot + 1) * pages)
            runner.tables.write(slot, 0, [PageId(page) for page in own])
        load = os.getloadavg()[0]
        samples: dict[str, list[float]] = {name: [] for name in chosen}
        for number in range(-_WARMING_STEPS, flags.counted):
            for name in list(chosen) if number % 2 else list(chosen)[::-1]:
                parts = [
                    SequenceSlice(slot, [slot + FIRST_TOKEN], flags.prompt, True, adapter=adapter)
                    for slot, adapter in enumerate(chosen[name])
                ]
                began_s = time.perf_counter()
                runner.forward(parts)
                if number >= 0:
                    samples[name].append(time.perf_counter() - began_s)
                pace.done()
        yield AdaptersPoint(
            weights=weights,
            batch=batch,
            threads=threads,
            adapters=flags.adapters,
            rank=flags.rank,
            samples={name: tuple(times) for name, times in samples.items()},
            load=(load, os.getloadavg()[0]),
            torch=version("torch"),
        )


def random_adapter(shape: ModelShape, rank: int, path: Path, *, seed: int) -> Path:
    """An adapter of all projections of a shape's layers, as PEFT writes it."""
    source = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for spec in weights_of(shape):
        if not spec.name.endswith("_proj.weight"):
            continue
        outputs, inputs = spec.shape
        at = f"base_model.model.{spec.name.removesuffix('.weight')}.lora_"
        tensors[f"{at}A.weight"] = _drawn(source, (rank, inputs), inputs**-0.5)
        tensors[f"{at}B.weight"] = _drawn(source, (outputs, rank), 0.01)
    path.mkdir(parents=True)
    save_file(tensors, path / "adapter_model.safetensors")
    modules = sorted({name.split(".")[-3] for name in tensors})
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": modules}
    (path / "adapter_config.json").write_text(json.dumps(config))
    return path


def _drawn(
    source: np.random.Generator, size: tuple[int, int], deviation: float
) -> np.ndarray[Any, Any]:
    return source.standard_normal(size, dtype=np.float32) * np.float32(deviation)

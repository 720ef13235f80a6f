"""The arms of a row: our engine, and peers in every variant that might be their best."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.config import EngineConfig
from agentrt.engine.process.child import environment
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.bench.engine.points import PAGE_TOKENS, SweepPoint

PEERS = ("hf", "hf-cb", "llama.cpp")
OURS = "agentrt"
CONSTRAINED = "constrained"
"""Ours too, its outputs held to a JSON type; compared as a peer is."""

_SPIN = {"OMP_WAIT_POLICY": "ACTIVE"}
_SLEEP = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of computing a row.

    Attributes:
        engine: `agentrt` or a peer.
        variant: What tells it from other arms of that engine.
        command: Of its process.
        settings: What its process is opened with.
        env: Added to the environment.
    """

    engine: str
    variant: str
    command: tuple[str, ...]
    settings: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For tables and messages."""
        return f"{self.engine} {self.variant}".strip()

    def called(self, variant: str) -> Arm:
        """The same arm, told from others by other words."""
        return replace(self, variant=variant)

    @property
    def key(self) -> str:
        """The same for arms that one process can serve."""
        return json.dumps([self.name, dict(self.settings)], default=str, sort_keys=True)


def our_arm(rows: Sequence[SweepPoint], model: Path, config: Mapping[str, Any]) -> Arm:
    """The engine as the product runs it, for rows of one dtype.

    Args:
        rows: What it has to hold, one at a time.
        model: Its checkpoint directory.
        config: More fields of `EngineConfig`.
    """
    fields: dict[str, Any] = {
        "model_path": model,
        "dtype": rows[0].dtype,
        "kv_pages": max(row.pages for row in rows),
        "max_running": max(row.running for row in rows),
        **config,
    }
    engine = EngineConfig(**fields)
    threads = int(fields.get("threads", 0))
    return Arm(
        engine=OURS,
        variant=f"{threads}t" if threads else "",
        command=(sys.executable, "-P", "-m", "agentrt.lab.arms.engine_arm"),
        settings={**fields, "model_path": str(model)},
        env=environment(engine, os.environ),
    )


def constrained_arm(ours: Arm) -> Arm:
    """The same engine writing JSON, every token of it in a step of its own."""
    settings = {**ours.settings, "jump_forward": False, "constrained": True}
    return replace(ours, engine=CONSTRAINED, settings=settings)


def peer_arms(
    peer: str, row: SweepPoint, shape: ModelShape, files: PeerFiles, *, device: str, cores: int
) -> list[Arm]:
    """Every variant of a peer; the bench keeps its best."""
    if device == "cuda":
        counts: Sequence[int] = (cores,)
    else:
        counts = range(1, cores + 1) if cores <= 2 else (1, cores // 2, cores)
    if peer == "llama.cpp":
        return [arm for threads in counts for arm in _llama_cpp(row, shape, files, threads)]
    return [
        arm
        for threads in counts
        for arm in _transformers(peer, row, files, device=device, threads=threads)
    ]


def _llama_cpp(row: SweepPoint, shape: ModelShape, files: PeerFiles, threads: int) -> list[Arm]:
    one = row.prompt_tokens + row.new_tokens
    settings = {
        "model": str(files.gguf(shape, row.dtype)),
        "threads": threads,
        "batch": row.batch,
        "dtype": row.dtype,
        "unified": False,
        "context_tokens": row.batch * (-(-one // 256) * 256),
    }
    arm = Arm(
        engine="llama.cpp",
        variant=f"{threads}t",
        command=(str(files.python), str(files.script("llama_cpp_arm.py"))),
        settings=settings,
        env={"LLAMA_CPP_LIB_PATH": str(files.libraries)},
    )
    if not row.shared_tokens:
        return [arm]
    joint = replace(arm, variant=f"{arm.variant} one cache", settings={**settings, "unified": True})
    return [arm, joint]


def _transformers(
    peer: str, row: SweepPoint, files: PeerFiles, *, device: str, threads: int
) -> list[Arm]:
    arm = Arm(
        engine=peer,
        variant=f"{threads}t",
        command=(str(files.transformers_python), str(files.script("hf_arm.py"))),
        settings={
            "model": str(files.checkpoint),
            "threads": threads,
            "dtype": row.dtype,
            "device": device,
            "continuous": peer == "hf-cb",
            **({"kv_tokens": row.pages * PAGE_TOKENS} if peer == "hf-cb" else {}),
        },
        env={"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"},
    )
    if threads == 1 or device == "cuda":
        return [arm]
    return [
        replace(arm, variant=f"{threads}t passive", env={**arm.env, **_SLEEP}),
        replace(arm, variant=f"{threads}t active", env={**arm.env, **_SPIN}),
    ]

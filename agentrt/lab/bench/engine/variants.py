"""The arms of a point: our engine, and peers in every variant that may be their best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.lab.arms.arm_process import Arm
from agentrt.lab.arms.engine_arms import (
    llama_cpp_arm,
    openvino_arm,
    our_engine_arm,
    transformers_arm,
)
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.served import PAGE_TOKENS, WAITS, thread_counts, thread_env
from agentrt.lab.bench.engine.points import SweepPoint

PEERS = ("hf", "hf-cb", "llama.cpp", "openvino")
CONSTRAINED = "constrained"
"""Our engine with its outputs held to a JSON type; compared as a peer is."""


_PEER_WEIGHTS = {"int8": "q8_0", "int4": "q4_0"}
"""Weights of llama.cpp beside quantised weights of ours."""


def our_arm(points: Sequence[SweepPoint], model: Path, config: Mapping[str, Any]) -> Arm:
    """Our engine for points of one dtype.

    Args:
        points: Points that its memory has to hold, one at a time.
        model: Checkpoint directory.
        config: Further fields of `EngineConfig`.
    """
    fields = {
        "dtype": points[0].dtype,
        "kv_pages": max(point.pages for point in points),
        "max_running": max(point.running for point in points),
        **config,
    }
    return our_engine_arm(model, **fields)


def constrained_arm(ours: Arm) -> Arm:
    """The same engine writing JSON, every token of it in a step of its own."""
    settings = {**ours.settings, "jump_forward": False, "constrained": True}
    return replace(ours, engine=CONSTRAINED, settings=settings)


def peer_arms(
    peer: str, point: SweepPoint, shape: ModelShape, files: PeerFiles, *, device: str, cores: int
) -> list[Arm]:
    """Every variant of a peer; the bench keeps its best."""
    counts = [cores] if device == "cuda" else thread_counts(cores)
    if peer == "llama.cpp":
        return [arm for threads in counts for arm in _llama_cpp(point, shape, files, threads)]
    if peer == "openvino":
        return [arm for threads in counts for arm in _openvino(point, shape, files, threads)]
    common = {
        "dtype": point.dtype,
        "device": device,
        "kv_tokens": point.pages * PAGE_TOKENS if peer == "hf-cb" else 0,
    }
    return [
        transformers_arm(
            files,
            f"{threads}t {wait}".strip(),
            thread_env(threads, wait),
            threads=threads,
            **common,
        )
        for threads in counts
        for wait in (("",) if threads == 1 or device == "cuda" else WAITS)  # they spin or sleep
    ]


def _llama_cpp(point: SweepPoint, shape: ModelShape, files: PeerFiles, threads: int) -> list[Arm]:
    """A shared prefix may be quicker with a cache for each sequence, or with one for all."""
    longest = point.prompt_tokens + point.new_tokens
    quantised = _PEER_WEIGHTS.get(point.weights, "")
    name = f"{threads}t {quantised}".strip()
    variants = {name: False}
    if point.shared_tokens:
        variants[f"{name} one cache"] = True
    return [
        llama_cpp_arm(
            files,
            variant,
            model=str(files.gguf(shape, quantised or point.dtype)),
            threads=threads,
            dtype=point.dtype,
            batch=point.batch,
            context_tokens=point.batch * (-(-longest // 256) * 256),
            unified=unified,
        )
        for variant, unified in variants.items()
    ]


def _openvino(point: SweepPoint, shape: ModelShape, files: PeerFiles, threads: int) -> list[Arm]:
    """Prompts may be quicker in steps of their own."""
    plain = point.weights == "checkpoint"
    model = files.gguf(shape, "float16") if plain else files.openvino_folder(shape, point.weights)
    name = f"{threads}t" if plain else f"{threads}t {point.weights}"
    return [
        openvino_arm(
            files,
            variant,
            model=str(model),
            dtype=point.dtype,
            threads=threads,
            kv_tokens=point.pages * PAGE_TOKENS,
            prompts_alone=alone,
        )
        for variant, alone in ((name, False), (f"{name} prompts alone", True))
    ]

"""Compiles a model: its weights as the CPU kernels read them, and what a start would decide anew.

The result is loaded again before it gets its name, and has to compute the same logits, bit for bit.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

import torch
from safetensors import SafetensorError
from torch import Tensor

from agentrt.base.compiled_model import is_compiled
from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, InternalError, ModelInvalid, UsageError
from agentrt.base.output_file import check_output
from agentrt.engine.models.compiled.codec_files import write_codec_files
from agentrt.engine.models.compiled.freshness import source_facts, this_target
from agentrt.engine.models.compiled.layer_files import write_layers
from agentrt.engine.models.compiled.manifest import (
    CompiledModel,
    CompiledSettings,
    write_manifest,
)
from agentrt.engine.models.compiled.stack_files import write_stack
from agentrt.engine.models.load_plan import LoadPlan, plan_load
from agentrt.engine.models.loader import LoadedModel, load_model
from agentrt.engine.models.native.build import read_weights
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_weights import fits_stack, stack_weights
from agentrt.engine.ops.cpu_threads import measured_with
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.prompt import Codec
from agentrt_kernels.cpu.kernel_set import CpuKernels

_TILE_TOKENS = 4096
_PAGES = 64
"""KV pages for the steps that are measured."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompileResult:
    """A compiled model as it was written.

    Attributes:
        model: The compiled model.
        written_bytes: Bytes of all its files.
        matrices: Format of its matrices, for display.
    """

    model: CompiledModel
    written_bytes: int
    matrices: str


def compile_model(
    config: EngineConfig,
    out: Path,
    on_progress: Progress = lambda doing: None,
    on_layer: Callable[[int, int], None] = lambda done, total: None,
) -> CompileResult:
    """Compile the model of `config.model_path` into the directory `out`.

    Args:
        config: Settings of the engine; those of weights and dtype are fixed by the result.
        out: A directory that does not exist, or a compiled model that is replaced.
        on_progress: Called with what is done next.
        on_layer: Called with the number of layers that are packed, and of all.

    Raises:
        ModelInvalid: The model cannot be loaded, or is compiled already.
        EngineUnavailable: Nothing on this machine, or for this model, reads packed weights.
        UsageError: The directory is something else, or cannot be written.
    """
    if is_compiled(config.model_path):
        raise ModelInvalid(
            f"{config.model_path} is compiled already", hint="Give the checkpoint it was made of"
        )
    if out.exists() and not is_compiled(out):
        raise UsageError(
            f"{out} exists, and is no compiled model", hint="Name a new directory by --out"
        )
    if not out.exists():
        check_output(out, "--out", makes_folders=True)
    plan = plan_load(config)
    shape, kernels = _compilable(plan)
    codec = Codec.load(config.model_path)
    on_progress("loading the model as it is")
    facts = source_facts(config.model_path)
    loaded = load_model(config)
    if not isinstance(loaded.shape, DecoderShape):
        raise _uncompilable(plan, loaded.report.path_reason)
    state, _, reason = loaded.report.self_check.partition(": ")
    expected = _logits(loaded)
    parameters = loaded.parameters
    del loaded
    with _draft(out) as draft:
        on_progress("packing its weights")
        weights = read_weights(shape, config.model_path, plan.dtype, plan.device, plan.quantisation)
        if fits_stack(shape, plan.dtype):
            writer = write_stack(kernels, shape, stack_weights(shape, weights), draft, on_layer)
        else:
            try:
                writer = write_layers(shape, weights, plan.linear_backend, draft, on_layer)
            except ValueError as error:
                raise _uncompilable(plan, str(error)) from error
        write_codec_files(config.model_path, draft)
        model = CompiledModel(
            path=out.resolve(),
            source=facts,
            target=this_target(),
            settings=CompiledSettings(
                dtype=str(plan.dtype).removeprefix("torch."),
                weights=config.weights,
                weight_group=config.weight_group,
                head_weights=config.head_weights,
                asked_dtype=config.dtype,
            ),
            stored_name=plan.stored_type.name,
            has_steps=plan.stored_type.has_steps,
            check_state=state,
            check_reason=reason,
            parameters=parameters,
            matrices=writer.forms,
            embedding=writer.embedding,
            files={},
        )
        write_manifest(model, draft)
        on_progress("loading it again, and measuring steps")
        opened = EngineConfig(draft, kv_pages=_PAGES)
        again = load_model(opened)
        if not torch.equal(_logits(again), expected):
            raise InternalError(f"{config.model_path} computes other logits once it is compiled")
        if Codec.load(draft).fingerprint != codec.fingerprint:
            raise InternalError(f"{config.model_path} has another tokenizer once it is compiled")
        runner = ModelRunner(opened.sized(), _TILE_TOKENS, model=again)
        computed_by = again.report.computed_by
        model = replace(model, threads=runner.threads, threads_of=measured_with(computed_by))
        write_manifest(model, draft)
        written = sum(one.stat().st_size for one in draft.rglob("*") if one.is_file())
        if out.exists():
            shutil.rmtree(out)
        draft.rename(out)
    return CompileResult(model, written, f"{again.report.linear} in {again.report.dtype}")


def _compilable(plan: LoadPlan) -> tuple[DecoderShape, CpuKernels]:
    shape, kernels = plan.shape, plan.kernels.kernels
    if plan.device.type != "cpu":
        raise _uncompilable(plan, f"weights are packed for a CPU, not for {plan.device.type}")
    if not isinstance(shape, DecoderShape):
        raise _uncompilable(plan, f"transformers computes it: {shape.reason}")
    if not isinstance(kernels, CpuKernels):
        raise _uncompilable(plan, f"its kernels are {kernels.name}: {plan.kernels.reason}")
    return shape, kernels


def _uncompilable(plan: LoadPlan, reason: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{plan.config.model_path} cannot be compiled: {reason}",
        hint="Use the model as it is; docs/models.md says which models can be compiled",
    )


def _logits(loaded: LoadedModel) -> Tensor:
    """Logits of the network for the probe of self-checks."""
    layout = replace(loaded.layout, codes=None)
    return network_logits(loaded.network, layout, loaded.heads, loaded.logits_size)


@contextmanager
def _draft(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out`, removed unless it was renamed."""
    draft = out.parent / f".{out.name}-{token_hex(4)}"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        yield draft
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{out} cannot be written: {reason}", hint="Name a folder with room for the weights"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)

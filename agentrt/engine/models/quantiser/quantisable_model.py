"""A checkpoint that can be quantised, and the form that each of its matrices takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid, UsageError
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.engine.models.checkpoint import read_config
from agentrt.engine.models.load_plan import LoadPlan, plan_load
from agentrt.engine.models.native.model_config import Declined
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import weight_shapes
from agentrt.engine.models.quantiser.layer_matrices import chosen_modules, matrices_of
from agentrt.engine.models.quantiser.layer_runner import LayerRunner
from agentrt.engine.models.quantiser.rounding import RoundingScheme
from agentrt.engine.models.quantiser.settings import QuantiserSettings
from agentrt.engine.models.quantiser.source_checkpoint import SourceCheckpoint

FINAL_NORM = "model.norm.weight"


@dataclass(frozen=True, slots=True)
class QuantisableModel:
    """A checkpoint that can be quantised; see `open_model`.

    Attributes:
        plan: Plan of the engine for it.
        shape: Shape of its decoder.
        config: Content of `config.json`.
        vocabulary: Size of the vocabulary.
        max_sequence_tokens: Longest sequence that it is run on.
    """

    plan: LoadPlan
    shape: DecoderShape
    config: dict[str, Any]

    @property
    def vocabulary(self) -> int:
        """Size of its vocabulary."""
        return self.shape.vocabulary

    @property
    def max_sequence_tokens(self) -> int:
        """Longest sequence that it is run on, in tokens."""
        return LayerRunner(self.plan, self.shape).max_sequence_tokens


def open_model(path: Path) -> QuantisableModel:
    """Check that a checkpoint can be quantised.

    Raises:
        ModelInvalid: The checkpoint is quantised already, or is no dense decoder that the engine
            computes.
    """
    if is_gguf(path):
        raise ModelInvalid(
            f"{path} is a GGUF file", hint="Give the checkpoint directory that it was made of"
        )
    config = read_config(path, weights=True)
    if config.get("quantization_config"):
        raise ModelInvalid(
            f"{path} is quantised already", hint="Give the checkpoint that it was made of"
        )
    plan = plan_load(EngineConfig(path, self_check="never"))
    shape = plan.shape
    fault = ""
    if isinstance(shape, Declined):
        raise ModelInvalid(
            f"{path} is no decoder whose layers are known here: {shape.reason}",
            hint="docs/models.md lists the architectures; llm-compressor quantises others",
        )
    if shape.experts is not None:
        fault = "has experts, whose matrices are not rounded here"
    elif shape.is_part:
        fault = "holds a decoder and other parts, which are not told apart here"
    if fault:
        raise ModelInvalid(f"{path} {fault}", hint="Quantise it with llm-compressor")
    return QuantisableModel(plan, shape, config)


def schemes_of(model: QuantisableModel, settings: QuantiserSettings) -> dict[str, RoundingScheme]:
    """The form of each module that is rounded.

    Raises:
        UsageError: A pattern fits no module, groups do not divide a module's inputs, or the method
            takes none.
    """
    is_float = settings.method == "fp8"
    if is_float and (settings.group or settings.eight_bits):
        given = "--group" if settings.group else "--eight-bits"
        raise UsageError(
            f"--method fp8 takes no {given}: each matrix has eight bits and a scale an output",
            hint=f"Leave {given}, or take --method int8 or int4",
        )
    shape, sizes = model.shape, weight_shapes(model.shape)
    kept = chosen_modules(shape, settings.kept, "--keep")
    eight = chosen_modules(shape, settings.eight_bits, "--eight-bits")
    scale_dtype = _stored_dtype(model, next(modules_of(shape)))
    schemes: dict[str, RoundingScheme] = {}
    for module in modules_of(shape):
        if module in kept:
            continue
        bits: Literal[4, 8] = 8 if settings.method in ("int8", "fp8") or module in eight else 4
        inputs = sizes[f"{module}.weight"][1]
        size = settings.group or (1 if bits == 8 else 2)
        if inputs % size:
            raise UsageError(
                f"{module} has {inputs} inputs, which groups of {size} do not divide",
                hint=f"Give another --group, or --keep '*.{module.rpartition('.')[2]}'",
            )
        schemes[module] = RoundingScheme(bits, settings.group, scale_dtype, is_float)
    if not schemes:
        raise UsageError("--keep keeps every matrix", hint="Name fewer of them")
    return schemes


def modules_of(shape: DecoderShape) -> Iterator[str]:
    """Names of all matrices of the layers."""
    for layer in range(shape.layers):
        for group in matrices_of(shape, layer).by_inputs:
            yield from group


def _stored_dtype(model: QuantisableModel, module: str) -> torch.dtype:
    with SourceCheckpoint(model.plan.config.model_path) as source:
        return source.tensor(f"{module}.weight").dtype

"""Quantises a checkpoint layer by layer into a directory in the compressed-tensors format.

Calibration follows the layers: each sees what the rounded layers before it pass on. A layer's
matrices are rounded by the inputs that the layer itself, still plain, gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from agentrt.base.cpu_cores import cores
from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import weight_shapes
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantisation import EMBEDDING, HEAD
from agentrt.engine.models.quantiser.awq_folding import AwqLayer
from agentrt.engine.models.quantiser.checkpoint_writer import CheckpointWriter
from agentrt.engine.models.quantiser.compressed_tensors import quantization_config, stored_tensors
from agentrt.engine.models.quantiser.divergence import Divergence, DivergenceSum
from agentrt.engine.models.quantiser.gptq import gptq
from agentrt.engine.models.quantiser.input_statistics import InputStatistics
from agentrt.engine.models.quantiser.layer_matrices import LayerMatrices, matrices_of
from agentrt.engine.models.quantiser.layer_runner import (
    LAYER,
    HiddenStates,
    LayerRunner,
    LayerStatistics,
    OutputHead,
)
from agentrt.engine.models.quantiser.output_scales import round_by_outputs
from agentrt.engine.models.quantiser.quantisable_model import (
    FINAL_NORM,
    QuantisableModel,
    modules_of,
    schemes_of,
)
from agentrt.engine.models.quantiser.rounding import RoundingScheme, round_to_nearest
from agentrt.engine.models.quantiser.settings import QuantiserSettings
from agentrt.engine.models.quantiser.source_checkpoint import SourceCheckpoint
from agentrt.engine.ops.cpu_threads import SMALL_MODEL_PARAMETERS
from agentrt.engine.ops.kernel_set import use_threads


@dataclass(frozen=True, slots=True)
class QuantiserResult:
    """Summary of a checkpoint that was written.

    Attributes:
        rounded: Number of quantised matrices.
        kept: Number of the layers' matrices that stayed plain.
        source_bytes: Bytes of all tensors before.
        written_bytes: Bytes of all tensors now.
        divergence: Divergence on the held-out text; None without one.
    """

    rounded: int
    kept: int
    source_bytes: int
    written_bytes: int
    divergence: Divergence | None


def quantise_checkpoint(
    model: QuantisableModel,
    target: Path,
    settings: QuantiserSettings,
    *,
    calibration: Sequence[Sequence[int]] = (),
    held_out: Sequence[Sequence[int]] = (),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuantiserResult:
    """Quantise a checkpoint.

    Args:
        model: From `open_model`.
        target: Directory to write; it must not exist.
        settings: How.
        calibration: Token ids of sequences, of at most `max_sequence_tokens` each; needed if the
            method calibrates.
        held_out: Sequences on which the divergence from the plain model is measured.
        on_progress: Called with the number of matrices that are done, and of all.

    Raises:
        UsageError: The target exists, a pattern fits nothing, or groups do not divide a matrix.
        ModelInvalid: The checkpoint is broken.
    """
    schemes = schemes_of(model, settings)
    _use_threads(model)
    with (
        torch.inference_mode(),
        SourceCheckpoint(model.plan.config.model_path) as source,
        CheckpointWriter(target) as writer,
    ):
        work = _Work(model, settings, schemes, source, writer, on_progress)
        divergence = work.run(calibration, held_out)
        config = dict(model.config)
        plain = [module for module in modules_of(model.shape) if module not in schemes]
        config["quantization_config"] = quantization_config(
            schemes,
            [*plain, HEAD.removesuffix(".weight")],
            ordered=settings.method == "gptq" and settings.orders_inputs,
        )
        writer.finish(model.plan.config.model_path, config)
        return QuantiserResult(
            rounded=len(schemes),
            kept=len(plain),
            source_bytes=work.source_bytes,
            written_bytes=writer.written_bytes,
            divergence=divergence,
        )


def _use_threads(model: QuantisableModel) -> None:
    """Compute with all cores, or with one where a second thread begins when the work is over."""
    parameters = sum(math.prod(size) for size in weight_shapes(model.shape).values())
    is_small = parameters < SMALL_MODEL_PARAMETERS
    use_threads(model.plan.kernels.kernels, 1 if is_small else cores())


@dataclass(slots=True)
class _Work:
    """One checkpoint on its way.

    Attributes:
        source_bytes: Bytes of the tensors that were read to be written.
    """

    model: QuantisableModel
    settings: QuantiserSettings
    schemes: dict[str, RoundingScheme]
    source: SourceCheckpoint
    writer: CheckpointWriter
    on_progress: Callable[[int, int], None]
    source_bytes: int = 0
    _done: int = 0
    _runner: LayerRunner = field(init=False)

    def __post_init__(self) -> None:
        self._runner = LayerRunner(self.model.plan, self.model.shape)

    def run(
        self, calibration: Sequence[Sequence[int]], held_out: Sequence[Sequence[int]]
    ) -> Divergence | None:
        """Write all tensors; returns the divergence on the held-out sequences."""
        layers = self.model.shape.layers
        for name in self.source.names:
            if not name.startswith("model.layers."):
                self._write(name, self.source.tensor(name))
        embedding = self.source.tensor(EMBEDDING)
        states = self._runner.embed(embedding, calibration) if calibration else None
        exact = rounded = self._runner.embed(embedding, held_out) if held_out else None
        total = DivergenceSum()
        for number in range(layers):
            prefix = f"model.layers.{number}."
            names = [name for name in self.source.names if name.startswith(prefix)]
            stored = {name: self.source.tensor(name) for name in names}
            before = self._alone(stored, prefix)
            weights, packed = self._quantised(number, stored, before, states)
            for name, tensor in stored.items():
                self._write_one(name, tensor, weights, packed)
            for module, matrix in packed.items():
                weights[f"{module}.weight"] = matrix.dequantize()
            after = self._alone(weights, prefix)
            is_last = number == layers - 1
            if states is not None and not is_last:
                states = self._runner.run(number, after, states)
            if exact is None or rounded is None:
                continue
            if not is_last:
                exact = self._runner.run(number, before, exact)
                rounded = self._runner.run(number, after, rounded)
                continue
            head = OutputHead(
                self.source.tensor(FINAL_NORM),
                embedding if self.model.shape.tied else self.source.tensor(HEAD),
            )
            pairs = (
                self._runner.logits(number, before, head, exact),
                self._runner.logits(number, after, head, rounded),
            )
            for reference, found in zip(*pairs, strict=True):
                total.add(reference, found)
        return total.mean() if held_out else None

    def _quantised(
        self,
        number: int,
        stored: dict[str, Tensor],
        alone: dict[str, Tensor],
        states: HiddenStates | None,
    ) -> tuple[dict[str, Tensor], dict[str, PackedWeight]]:
        """A layer's weights as they become, and its rounded matrices."""
        shape, weights = self.model.shape, dict(stored)
        matrices = matrices_of(shape, number)
        statistics, scales = None, dict[str, Tensor]()
        if self.settings.calibrates and any(one in self.schemes for one in _all(matrices)):
            assert states is not None
            statistics = _new_statistics(shape)
            self._runner.run(number, alone, states, statistics)
            self._check(statistics, number)
        if statistics is not None and self.settings.method == "awq":
            prefix = f"model.layers.{number}."
            layer = AwqLayer(shape, prefix, matrices, weights, statistics, self.schemes)
            scales = layer.fold()
        packed: dict[str, PackedWeight] = {}
        inputs = [None] * 4 if statistics is None else _by_inputs(statistics)
        for modules, counted in zip(matrices.by_inputs, inputs, strict=True):
            if modules[0] in self.schemes:
                packed |= self._rounded(modules, weights, counted, scales.get(modules[0]))
            self._done += len(modules)
            self.on_progress(self._done, shape.layers * len(_all(matrices)))
        return weights, packed

    def _rounded(
        self,
        modules: tuple[str, ...],
        weights: dict[str, Tensor],
        statistics: InputStatistics | None,
        scales: Tensor | None,
    ) -> dict[str, PackedWeight]:
        """Matrices with equal inputs, rounded as one."""
        parts = [weights[f"{module}.weight"].float() for module in modules]
        weight, scheme = torch.cat(parts), self.schemes[modules[0]]
        if statistics is None:
            made = round_to_nearest(weight, scheme)
        elif self.settings.method == "gptq":
            made = gptq(
                weight,
                statistics.hessian,
                scheme,
                damping=self.settings.damping,
                orders_inputs=self.settings.orders_inputs,
            )
        else:
            hessian = statistics.hessian
            if scales is not None:
                hessian = hessian / scales[:, None] / scales
            made = round_by_outputs(weight, scheme, hessian)
        found: dict[str, PackedWeight] = {}
        start = 0
        for module, part in zip(modules, parts, strict=True):
            found[module] = made.rows(slice(start, start + part.shape[0]))
            start += part.shape[0]
        return found

    def _alone(self, weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
        """A layer's weights by the names under which it is run, in the type that computes."""
        known, dtype = weight_shapes(self.model.shape), self.model.plan.dtype
        return {
            LAYER + name.removeprefix(prefix): tensor.to(dtype)
            for name, tensor in weights.items()
            if name in known
        }

    def _write_one(
        self,
        name: str,
        stored: Tensor,
        weights: dict[str, Tensor],
        packed: dict[str, PackedWeight],
    ) -> None:
        """Write what became of a tensor."""
        matrix = packed.get(name.removesuffix(".weight"))
        if matrix is None:
            self._write(name, weights[name])
            return
        self.source_bytes += stored.nbytes
        module = name.removesuffix(".weight")
        tensors = stored_tensors(module, matrix, self.schemes[module].scale_dtype)
        for made, tensor in tensors.items():
            self.writer.add(made, tensor)

    def _write(self, name: str, tensor: Tensor) -> None:
        self.source_bytes += tensor.nbytes
        self.writer.add(name, tensor)

    def _check(self, statistics: LayerStatistics, number: int) -> None:
        if not all(bool(one.mean_size.isfinite().all()) for one in _by_inputs(statistics)):
            raise ModelInvalid(
                f"activations of layer {number} of {self.model.plan.config.model_path} are not "
                "finite",
                hint="Copy the checkpoint again, or take another calibration file",
            )


def _all(matrices: LayerMatrices) -> list[str]:
    return [module for group in matrices.by_inputs for module in group]


def _by_inputs(statistics: LayerStatistics) -> list[InputStatistics]:
    return [statistics.qkv, statistics.out, statistics.gate_up, statistics.down]


def _new_statistics(shape: DecoderShape) -> LayerStatistics:
    return LayerStatistics(
        qkv=InputStatistics(shape.hidden),
        out=InputStatistics(shape.query_width),
        gate_up=InputStatistics(shape.hidden),
        down=InputStatistics(shape.inner),
    )

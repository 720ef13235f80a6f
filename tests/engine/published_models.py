"""Quantised checkpoints of the tiny models, written by the description of each format alone.

Layouts are spelled out value by value, apart from the reader. A matrix is drawn as codes, zeros and
scales; its values are those that the format says they stand for.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from agentrt.base.config import EngineConfig
from agentrt.engine.models.loader import LoadedModel, load_model
from agentrt.engine.models.native.self_check import network_logits

Written = tuple[dict[str, torch.Tensor], NDArray[np.float32]]
"""Tensors of a matrix by part, and its values `[N, W]`."""
Writer = Callable[[np.random.Generator, int, int], Written]
"""Draws and writes a matrix of so many outputs and inputs."""
JOINT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


@dataclass(frozen=True)
class Drawn:
    """A matrix before it is written.

    Attributes:
        codes: Unsigned codes `[N, W]`.
        zeros: Codes that stand for zero `[N, G]`.
        scales: `[N, G]`, exact in fp16 and bf16.
        groups: Group of each input `[W]`.
    """

    codes: NDArray[np.int64]
    zeros: NDArray[np.int64]
    scales: NDArray[np.float32]
    groups: NDArray[np.int64]

    def values(self) -> NDArray[np.float32]:
        """`[N, W]`."""
        steps = self.codes - self.zeros[:, self.groups]
        return (steps * self.scales[:, self.groups]).astype(np.float32)


def drawn(
    draws: np.random.Generator,
    outputs: int,
    inputs: int,
    bits: int,
    group: int,
    *,
    asymmetric: bool = False,
    shuffled: bool = False,
) -> Drawn:
    """A random matrix; a group of 0 is a whole row. Shuffled groups depend on the width alone."""
    group = group or inputs
    count, middle = inputs // group, 1 << (bits - 1)
    zeros = np.full((outputs, count), middle)
    if asymmetric:
        zeros = draws.integers(0, 1 << bits, (outputs, count))
        zeros[0, 0] = 0  # which the first version of GPTQ stores as the largest code
    groups = np.arange(inputs) // group
    if shuffled:
        groups = np.random.default_rng(inputs).permutation(groups)
    return Drawn(
        codes=draws.integers(0, 1 << bits, (outputs, inputs)),
        zeros=zeros,
        scales=(draws.integers(1, 16, (outputs, count)) / 512 * 16 / (1 << bits)).astype("f4"),
        groups=groups,
    )


def words_along_rows(codes: NDArray[np.int64], bits: int) -> torch.Tensor:
    """Words of 32 bits `[rows, columns * bits / 32]`, the first code in the lowest bits."""
    each = 32 // bits
    rows, columns = codes.shape
    found = np.zeros((rows, -(-columns // each)), dtype=np.uint32)
    for column in range(columns):
        found[:, column // each] |= codes[:, column].astype("u4") << (bits * (column % each))
    return torch.from_numpy(found.view(np.int32))


def compressed(
    bits: int, group: int, *, asymmetric: bool = False, shuffled: bool = False, packed: bool = True
) -> Writer:
    """compressed-tensors: `pack-quantized`, or `int-quantized` with a byte a code."""

    def write(draws: np.random.Generator, outputs: int, inputs: int) -> Written:
        one = drawn(draws, outputs, inputs, bits, group, asymmetric=asymmetric, shuffled=shuffled)
        middle = 1 << (bits - 1)
        parts = {"weight_scale": torch.from_numpy(one.scales).to(torch.bfloat16)}
        if packed:
            parts["weight_packed"] = words_along_rows(one.codes, bits)
            parts["weight_shape"] = torch.tensor([outputs, inputs])
        else:
            parts["weight"] = torch.from_numpy((one.codes - middle).astype(np.int8))
        if asymmetric and packed:  # words along the outputs
            parts["weight_zero_point"] = words_along_rows(one.zeros.T, bits).t().contiguous()
        elif asymmetric:
            parts["weight_zero_point"] = torch.from_numpy((one.zeros - middle).astype(np.int8))
        if shuffled:
            parts["weight_g_idx"] = torch.from_numpy(one.groups.astype(np.int32))
        return parts, one.values()

    return write


def gptq(
    bits: int,
    group: int,
    *,
    version: int = 1,
    asymmetric: bool = False,
    shuffled: bool = False,
    borrows: bool = False,
) -> Writer:
    """GPTQ: codes in words along the inputs, zeros along the outputs, less one in version 1.

    GPTQModel subtracts those ones from whole words, so that a zero of 0 borrows from the next.
    """

    def write(draws: np.random.Generator, outputs: int, inputs: int) -> Written:
        one = drawn(draws, outputs, inputs, bits, group, asymmetric=asymmetric, shuffled=shuffled)
        less = 1 if version == 1 else 0
        zeros = (one.zeros.T - less) % (1 << bits)  # [G, N]
        zero_words = words_along_rows(zeros, bits)
        if borrows:
            whole = words_along_rows(one.zeros.T, bits).numpy().view(np.uint32)
            ones = np.uint32(0x11111111 if bits == 4 else 0x01010101)
            zero_words = torch.from_numpy((whole - ones).view(np.int32))
        parts = {
            "qweight": words_along_rows(one.codes, bits).t().contiguous(),
            "qzeros": zero_words,
            "scales": torch.from_numpy(one.scales.T.copy()).to(torch.float16),
            "g_idx": torch.from_numpy(one.groups.astype(np.int32)),
        }
        return parts, one.values()

    return write


def awq(group: int) -> Writer:
    """AWQ: input by output, in words along the outputs, whose codes take turns."""

    def write(draws: np.random.Generator, outputs: int, inputs: int) -> Written:
        one = drawn(draws, outputs, inputs, 4, group, asymmetric=True)
        order = np.array([0, 2, 4, 6, 1, 3, 5, 7])  # output of each nibble, from the lowest on
        places = (np.arange(outputs).reshape(-1, 8)[:, order]).flatten()
        parts = {
            "qweight": words_along_rows(one.codes.T[:, places], 4),
            "qzeros": words_along_rows(one.zeros.T[:, places], 4),
            "scales": torch.from_numpy(one.scales.T.copy()).to(torch.float16),
        }
        return parts, one.values()

    return write


def fp8(part: str, high: int, wide: int) -> Writer:
    """FP8 with a factor for each block of so many outputs and inputs; 0 takes all."""

    def write(draws: np.random.Generator, outputs: int, inputs: int) -> Written:
        codes = draws.integers(0, 256, (outputs, inputs)).astype(np.uint8)
        codes[codes % 128 == 127] = 3  # those are no numbers
        tall, broad = high or outputs, wide or inputs
        size = (-(-outputs // tall), -(-inputs // broad))
        factors = (draws.integers(1, 16, size) / 2**15).astype("f4")
        sign, exponent, fraction = codes >> 7, (codes >> 3 & 15).astype(int), codes & 7
        size_of = np.where(exponent, (1 + fraction / 8) * 2.0 ** (exponent - 7), fraction / 512)
        rows, columns = np.arange(outputs) // tall, np.arange(inputs) // broad
        values = np.where(sign, -size_of, size_of) * factors[rows][:, columns]
        parts = {
            "weight": torch.from_numpy(codes).view(torch.float8_e4m3fn),
            part: torch.from_numpy(factors),
        }
        return parts, values.astype("f4")

    return write


NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
)


def nf4(*, nested: bool) -> Writer:
    """NF4 of bitsandbytes in blocks of 64, with factors in fp32 or in codes of their own."""

    def write(draws: np.random.Generator, outputs: int, inputs: int) -> Written:
        codes = draws.integers(0, 16, (outputs, inputs)).astype(np.uint8)
        blocks = outputs * inputs // 64
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32"}
        flat = codes.flatten()
        parts = {"weight": torch.from_numpy(flat[::2] << 4 | flat[1::2])[:, None]}
        factors = (draws.integers(1, 64, blocks) / 256).astype("f4")
        parts["weight.absmax"] = torch.from_numpy(factors)
        if nested:
            table = np.linspace(-1, 1, 256).astype("f4")
            raw = draws.integers(0, 256, blocks).astype(np.uint8)
            largest = np.full(-(-blocks // 256), 0.125, dtype="f4")
            factors = table[raw] * largest[np.arange(blocks) // 256] + np.float32(0.25)
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.25}
            parts["weight.absmax"] = torch.from_numpy(raw)
            parts["weight.nested_absmax"] = torch.from_numpy(largest)
            parts["weight.nested_quant_map"] = torch.from_numpy(table)
        parts["weight.quant_map"] = torch.tensor(NF4)
        described = json.dumps({**state, "shape": [outputs, inputs]}).encode()
        parts["weight.quant_state.bitsandbytes__nf4"] = torch.tensor(list(described)).to(
            torch.uint8
        )
        values = np.array(NF4, dtype="f4")[codes] * factors.reshape(outputs, -1).repeat(64, 1)
        return parts, values.astype("f4")

    return write


def int8_rows() -> Writer:
    """int8 of bitsandbytes: the largest value of each row stands for 127."""

    def write(draws: np.random.Generator, outputs: int, inputs: int) -> Written:
        codes = draws.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        largest = (draws.integers(1, 16, outputs) / 64).astype("f4")
        parts = {
            "weight": torch.from_numpy(codes),
            "SCB": torch.from_numpy(largest),
            "weight_format": torch.tensor(0, dtype=torch.uint8),
        }
        return parts, (codes * (largest / np.float32(127))[:, None]).astype("f4")

    return write


def compressed_config(bits: int, group: int, **more: Any) -> dict[str, Any]:
    """A `quantization_config` of compressed-tensors, as LLM Compressor writes it."""
    weights = {
        "actorder": more.pop("actorder", None),
        "block_structure": None,
        "dynamic": False,
        "group_size": group or None,
        "num_bits": bits,
        "observer": "minmax",
        "observer_kwargs": {},
        "strategy": "group" if group else "channel",
        "symmetric": more.pop("symmetric", True),
        "type": more.pop("type", "int"),
    }
    rows = more.pop("input_activations", None)
    targets = {"input_activations": rows, "output_activations": None, "targets": ["Linear"]}
    return {
        "config_groups": {"group_0": {**targets, "weights": weights}},
        "format": "pack-quantized",
        "global_compression_ratio": 1.5,
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        **more,
    }


def gptq_config(bits: int, group: int, **more: Any) -> dict[str, Any]:
    """A `quantization_config` of GPTQ, as AutoGPTQ writes it."""
    return {
        "bits": bits,
        "checkpoint_format": "gptq",
        "damp_percent": 0.01,
        "desc_act": False,
        "group_size": group or -1,
        "model_file_base_name": "model",
        "model_name_or_path": None,
        "quant_method": "gptq",
        "static_groups": False,
        "sym": True,
        "true_sequential": True,
        **more,
    }


def awq_config(group: int, **more: Any) -> dict[str, Any]:
    """A `quantization_config` of AWQ, as AutoAWQ writes it."""
    return {
        "bits": 4,
        "group_size": group,
        "modules_to_not_convert": None,
        "quant_method": "awq",
        "version": "gemm",
        "zero_point": True,
        **more,
    }


def fp8_config(high: int, wide: int, **more: Any) -> dict[str, Any]:
    """A `quantization_config` of FP8 by blocks, as DeepSeek writes it."""
    return {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [high, wide],
        **more,
    }


def bnb_config(bits: int, **more: Any) -> dict[str, Any]:
    """A `quantization_config` of bitsandbytes, as transformers writes it."""
    return {
        "_load_in_4bit": bits == 4,
        "_load_in_8bit": bits == 8,
        "bnb_4bit_compute_dtype": "bfloat16",
        "bnb_4bit_quant_storage": "uint8",
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": False,
        "llm_int8_enable_fp32_cpu_offload": False,
        "llm_int8_has_fp16_weight": False,
        "llm_int8_skip_modules": None,
        "llm_int8_threshold": 6.0,
        "load_in_4bit": bits == 4,
        "load_in_8bit": bits == 8,
        "quant_method": "bitsandbytes",
        **more,
    }


def write_published(
    folder: Path, plain: Path, settings: dict[str, Any], write: Writer, *, seed: int = 0
) -> Path:
    """A quantised checkpoint of a plain one's shape, and the plain one with the same values.

    Args:
        folder: New directory of the quantised one.
        plain: Directory of the plain one; its matrices are overwritten.
        settings: The `quantization_config`.
        write: Draws and writes a matrix.
        seed: Of what is drawn.
    """
    draws = np.random.default_rng(seed)
    shutil.copytree(plain, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    weights = load_file(plain / "model.safetensors")
    stored: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        if not name.endswith("proj.weight"):
            stored[name] = weight
            continue
        outputs, inputs = weight.shape
        parts, values = write(draws, outputs, inputs)
        stored |= {f"{name.removesuffix('weight')}{part}": one for part, one in parts.items()}
        weights[name] = torch.from_numpy(values)
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    save_file(weights, plain / "model.safetensors", {"format": "pt"})
    return folder


def logits_of(path: Path, **settings: Any) -> tuple[torch.Tensor, LoadedModel]:
    """Logits of the probe in a few steps, and the model."""
    model = load_model(EngineConfig(path, self_check="never", **settings))
    return network_logits(model.network, model.layout, model.heads, model.logits_size), model

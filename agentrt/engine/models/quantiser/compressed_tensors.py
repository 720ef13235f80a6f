"""Quantised matrices in the compressed-tensors format, as vLLM and transformers read it.

The format is `pack-quantized` for four and for eight bits alike: weights alone are integers there,
while readers of `int-quantized` round activations as well. FP8 is `float-quantized`, whose readers
may round rows to FP8, too.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantiser.rounding import RoundingScheme

FORMAT = "pack-quantized"
FLOAT_FORMAT = "float-quantized"
_WORD_BYTES = 4
_ROWS_IN_FP8 = {
    "num_bits": 8,
    "type": "float",
    "symmetric": True,
    "dynamic": True,
    "strategy": "token",
}
"""Rows are rounded as they come, each with a scale, by readers with matrix units for FP8."""


def stored_tensors(
    module: str, weight: PackedWeight, scale_dtype: torch.dtype
) -> dict[str, Tensor]:
    """Tensors of a quantised matrix by their names in a checkpoint.

    `weight_packed` is int32 `[N, ceil(W * bits / 32)]`: codes from the lowest bits up, each stored
    without its sign, the middle code being zero. `weight_scale` is `[N, G]`, and `weight_shape`
    int64 `[2]`. A matrix in FP8 is `weight` float8_e4m3fn `[N, W]` and `weight_scale`.

    Args:
        module: Name of the module, such as `model.layers.0.mlp.down_proj`.
        weight: The matrix, whose scales are exact in `scale_dtype`.
        scale_dtype: Type of the scales.
    """
    values = weight.values
    if weight.table is not None:
        return {
            f"{module}.weight": values.view(torch.float8_e4m3fn),
            f"{module}.weight_scale": weight.scales.to(scale_dtype),
        }
    if weight.bits == 8:
        values = (values.to(torch.int16) + 128).to(torch.uint8)
    values = functional.pad(values, (0, -values.shape[1] % _WORD_BYTES))
    return {
        f"{module}.weight_packed": values.contiguous().view(torch.int32),
        f"{module}.weight_scale": weight.scales.to(scale_dtype),
        f"{module}.weight_shape": torch.tensor(tuple(weight.shape)),
    }


def quantization_config(
    schemes: Mapping[str, RoundingScheme], plain: Iterable[str], *, ordered: bool = False
) -> dict[str, Any]:
    """The `quantization_config` of a `config.json`.

    Args:
        schemes: Form of each quantised module by name.
        plain: Names of the linear modules that are not quantised, the head included.
        ordered: Whether inputs were rounded in the order of their second moments.
    """
    forms: dict[RoundingScheme, list[str]] = {}
    for module, scheme in schemes.items():
        forms.setdefault(scheme, []).append(module)
    by_size = sorted(forms.items(), key=lambda form: -len(form[1]))
    return {
        "quant_method": "compressed-tensors",
        "format": _format(by_size[0][0]),
        "quantization_status": "compressed",
        "global_compression_ratio": None,
        "kv_cache_scheme": None,
        "config_groups": {
            # Most have one form; names of modules go before their class where others differ.
            f"group_{number}": _group(scheme, modules if number else ["Linear"], ordered)
            for number, (scheme, modules) in enumerate(by_size)
        },
        "ignore": sorted(plain),
    }


def _format(scheme: RoundingScheme) -> str:
    return FLOAT_FORMAT if scheme.is_float else FORMAT


def _group(scheme: RoundingScheme, targets: list[str], ordered: bool) -> dict[str, Any]:
    return {
        "targets": targets,
        "format": _format(scheme),
        "input_activations": _ROWS_IN_FP8 if scheme.is_float else None,
        "output_activations": None,
        "weights": {
            "num_bits": scheme.bits,
            "type": "float" if scheme.is_float else "int",
            "symmetric": True,
            "dynamic": False,
            "strategy": "group" if scheme.group else "channel",
            "group_size": scheme.group or None,
            "actorder": "weight" if ordered else None,
        },
    }

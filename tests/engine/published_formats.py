"""Each format of quantised checkpoints that is read: a writer, its config, and bits of a weight."""

import json
from pathlib import Path
from typing import Any

from tests.engine.published_models import (
    awq,
    awq_config,
    bnb_config,
    compressed,
    compressed_config,
    fp8,
    fp8_config,
    gptq,
    gptq_config,
    int8_rows,
    nf4,
    write_published,
)

WIDE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 192}
ROWS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
INT8 = {"format": "int-quantized", "input_activations": ROWS}


def compressed_fp8(strategy: str, group: int = 0, **more: Any) -> dict[str, Any]:
    """A config of compressed-tensors in FP8."""
    settings = compressed_config(8, group, type="float", format="float-quantized")
    settings["config_groups"]["group_0"]["weights"] |= {"strategy": strategy, **more}
    return settings


FORMATS = {
    "compressed int4 in groups": (compressed(4, 32), compressed_config(4, 32), 4),
    "compressed int4 in rows": (compressed(4, 0), compressed_config(4, 0), 4),
    "compressed int4 with zeros": (
        compressed(4, 64, asymmetric=True),
        compressed_config(4, 64, symmetric=False),
        4,
    ),
    "compressed int4 reordered": (
        compressed(4, 32, shuffled=True),
        compressed_config(4, 32, actorder="group"),
        4,
    ),
    "compressed int8 in words": (
        compressed(8, 64, asymmetric=True),
        compressed_config(8, 64, symmetric=False),
        8,
    ),
    "compressed int8 in rows": (
        compressed(8, 0, packed=False),
        compressed_config(8, 0, **INT8),
        8,
    ),
    "compressed int8 with zeros": (
        compressed(8, 0, packed=False, asymmetric=True),
        compressed_config(8, 0, symmetric=False, **INT8),
        8,
    ),
    "gptq int4": (gptq(4, 32), gptq_config(4, 32), 4),
    "gptq int4 with zeros": (gptq(4, 64, asymmetric=True), gptq_config(4, 64, sym=False), 4),
    "gptq int4 reordered": (
        gptq(4, 32, asymmetric=True, shuffled=True),
        gptq_config(4, 32, sym=False, desc_act=True),
        4,
    ),
    "gptq int4 of version 2": (
        gptq(4, 32, version=2, asymmetric=True),
        gptq_config(4, 32, sym=False, checkpoint_format="gptq_v2"),
        4,
    ),
    **{
        f"gptq int{bits} of gptqmodel": (
            gptq(bits, 32, asymmetric=True, borrows=True),
            gptq_config(bits, 32, sym=False, meta={"quantizer": ["gptqmodel:7.7.0"]}),
            bits,
        )
        for bits in (4, 8)
    },
    "gptq int8": (gptq(8, 0), gptq_config(8, 0), 8),
    "gptq int8 reordered": (
        gptq(8, 32, asymmetric=True, shuffled=True),
        gptq_config(8, 32, sym=False, desc_act=True),
        8,
    ),
    "awq": (awq(64), awq_config(64), 4),
    "fp8 blocks": (fp8("weight_scale_inv", 128, 128), fp8_config(128, 128), 8),
    "fp8 small blocks": (fp8("weight_scale_inv", 48, 40), fp8_config(48, 40), 8),
    "compressed fp8 in rows": (fp8("weight_scale", 1, 0), compressed_fp8("channel"), 8),
    "compressed fp8 in blocks": (
        fp8("weight_scale", 128, 128),
        compressed_fp8("block", block_structure=[128, 128]),
        8,
    ),
    "compressed fp8 in groups": (fp8("weight_scale", 1, 32), compressed_fp8("group", 32), 8),
    "nf4": (nf4(nested=False), bnb_config(4), 4),
    "nf4 nested": (nf4(nested=True), bnb_config(4, bnb_4bit_use_double_quant=True), 4),
    "bitsandbytes int8": (int8_rows(), bnb_config(8), 8),
}


def written(name: str, plain: Path) -> Path:
    """A checkpoint of a format, of the shape of a plain one, which gets the same values."""
    write, settings, _ = FORMATS[name]
    return write_published(plain.parent / "published", plain, settings, write)


def rewrite(path: Path, settings: dict[str, Any]) -> None:
    """Put another `quantization_config` into a checkpoint."""
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))

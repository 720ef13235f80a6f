"""Format of a quantised checkpoint by its `quantization_config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.published.awq import Awq
from agentrt.engine.models.published.bitsandbytes import bitsandbytes
from agentrt.engine.models.published.compressed_tensors import CompressedTensors
from agentrt.engine.models.published.fp8 import Fp8Blocks
from agentrt.engine.models.published.gptq import Gptq
from agentrt.engine.models.published.mxfp4 import Mxfp4
from agentrt.engine.models.published.stored_format import ELSEWHERE, FormatSettings, StoredFormat

_FORMATS: dict[str, Callable[[FormatSettings], StoredFormat]] = {
    "compressed-tensors": CompressedTensors,
    "gptq": Gptq,
    "awq": Awq,
    "fp8": Fp8Blocks,
    "bitsandbytes": bitsandbytes,
    "mxfp4": Mxfp4,
}


def format_of(hf_config: Mapping[str, Any], path: Path) -> StoredFormat | None:
    """The format of a checkpoint's quantised matrices; None if it has none.

    Args:
        hf_config: Config of the checkpoint.
        path: Directory of the checkpoint.

    Raises:
        ModelInvalid: The format, or a setting of it, is not read.
    """
    given = hf_config.get("quantization_config") or hf_config.get("compression_config")
    if not given:
        return None
    method = given.get("quant_method", "unknown") if isinstance(given, dict) else "unknown"
    make = _FORMATS.get(method) if isinstance(method, str) else None
    if make is None:
        raise ModelInvalid(
            f"{path} is quantised ({method}), which this engine does not load yet",
            hint=ELSEWHERE,
        )
    return make(FormatSettings(path, "quantization_config", given))

"""Memory that a configuration of the embedded engine takes, known before it starts."""

from __future__ import annotations

from typing import Literal, cast

from agentrt.base.config import EngineConfig
from agentrt.base.engine_extra import require_packages
from agentrt.base.record import record

NumberType = Literal["float32", "bfloat16", "float16"]


@record
class EngineMemory:
    """Memory of an embedded engine.

    Attributes:
        weight_bytes: Bytes of its weights; 0 if transformers computes the model.
        kv_token_bytes: Bytes of the keys and values of a token; 0 likewise.
        dtype: Numbers that it computes with.
    """

    weight_bytes: int
    kv_token_bytes: float
    dtype: NumberType


def engine_memory(config: EngineConfig) -> tuple[EngineMemory | None, str]:
    """The memory of an engine, and why it cannot be loaded here, or "".

    Args:
        config: Settings of the engine.

    Raises:
        NotInstalled: The packages of the embedded engine are not installed.
    """
    require_packages("agentrt tune with the embedded engine")
    from agentrt.engine.models.report import model_report

    report = model_report(config)
    if report.path == "unsupported":
        return None, report.path_reason
    dtype = cast(NumberType, report.dtype)
    return EngineMemory(report.weight_bytes, report.kv_token_bytes, dtype), ""

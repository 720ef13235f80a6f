"""Norms and sinks of a layer in a compiled model: their names, and the sizes of a shape."""

from __future__ import annotations

from typing import Any

from agentrt.engine.models.compiled.weight_files import WeightReader, WeightWriter
from agentrt.engine.models.native.layer import Layer
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.ops.linear import Linear
from agentrt_kernels.contract import Score
from agentrt_kernels.cpu.stack import StackLayer

_NORMS = ("norm", "out_norm", "query_norm", "key_norm", "inner_norm", "inner_out_norm")


def add_norms(writer: WeightWriter, at: str, layer: StackLayer | Layer[Linear]) -> None:
    """Add the norms and the sinks of a layer whose names begin with `at`."""
    held = {name: getattr(layer, name) for name in _NORMS} | {"sinks": layer.score.sinks}
    writer.add_plain(**{f"{at}.{name}": one for name, one in held.items()})


def read_norms(reader: WeightReader, shape: DecoderShape, number: int) -> dict[str, Any]:
    """Norms and score of layer `number`, by the names that layers have for them.

    Raises:
        ModelInvalid: The files are not those of such a decoder.
    """
    found: dict[str, Any] = {
        name: None if size is None else reader.plain(f"layers.{number}.{name}", size)
        for name, size in _sizes(shape).items()
    }
    sinks = found.pop("sinks")
    found["score"] = Score(shape.scaling, shape.softcap, shape.windows[number], sinks)
    return found


def _sizes(shape: DecoderShape) -> dict[str, tuple[int, ...] | None]:
    """Shapes of norms and sinks; None for those that a layer has not."""
    names, hidden = shape.names, (shape.hidden,)
    query: tuple[int, ...] | None = None
    key: tuple[int, ...] | None = None
    if shape.head_norms == "own":
        query, key = (shape.heads, shape.head_dim), (shape.kv_heads, shape.head_dim)
    elif shape.head_norms == "each":
        query = key = (shape.head_dim,)
    elif shape.head_norms == "all":
        query, key = (shape.query_width,), (shape.kv_width,)
    return {
        "norm": hidden if names.norm else None,
        "out_norm": hidden if names.out_norm else None,
        "query_norm": query,
        "key_norm": key,
        "inner_norm": hidden if names.inner_norm else None,
        "inner_out_norm": hidden if names.inner_out_norm else None,
        "sinks": (shape.heads,) if shape.sinks else None,
    }

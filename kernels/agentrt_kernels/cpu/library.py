"""The compiled library as Python calls it. The structs repeat those of `source/`."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu.build import library


class Linear(ctypes.Structure):
    """`struct Linear`: one packed matrix and what becomes of its products."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("after", c_int32),
        ("scale", c_float),
    )


class Pages(ctypes.Structure):
    """`struct Pages`: where one layer's keys and values lie."""

    _fields_ = (
        ("memory", c_void_p),
        ("page_stride", c_int64),
        ("value_offset", c_int64),
        ("token_stride", c_int64),
        ("head_stride", c_int64),
        ("page_tokens", c_int32),
        ("kv_heads", c_int32),
        ("head_dim", c_int32),
    )


class Score(ctypes.Structure):
    """`struct Score`: 0 stands for no softcap and no window."""

    _fields_ = (
        ("scaling", c_float),
        ("softcap", c_float),
        ("window", c_int32),
        ("sinks", c_void_p),
    )


class Rows(ctypes.Structure):
    """`struct Rows`: which row sees which pages."""

    _fields_ = (
        ("query_start", c_void_p),
        ("kv_tokens", c_void_p),
        ("table", c_void_p),
        ("table_stride", c_int64),
        ("sequences", c_int32),
        ("groups", c_int32),
        ("member_start", c_void_p),
        ("members", c_void_p),
        ("prefix_tokens", c_void_p),
        ("prefix_table", c_void_p),
        ("prefix_stride", c_int64),
    )


class Heads(ctypes.Structure):
    """`struct Heads`: queries and where their results go."""

    _fields_ = (
        ("query", c_void_p),
        ("query_stride", c_int64),
        ("query_head_stride", c_int64),
        ("out", c_void_p),
        ("out_stride", c_int64),
        ("out_head_stride", c_int64),
        ("heads", c_int32),
    )


class Rope(ctypes.Structure):
    """`struct Rope`."""

    _fields_ = (
        ("qkv", c_void_p),
        ("qkv_stride", c_int64),
        ("qkv_head_stride", c_int64),
        ("positions", c_void_p),
        ("angles", c_void_p),
        ("angles_stride", c_int64),
        ("slots", c_void_p),
        ("query_norm", c_void_p),
        ("key_norm", c_void_p),
        ("epsilon", c_float),
        ("heads", c_int32),
        ("query", c_void_p),
        ("query_stride", c_int64),
        ("query_head_stride", c_int64),
    )


class NormCall(ctypes.Structure):
    """`struct NormCall`."""

    _fields_ = (
        ("delta", c_void_p),
        ("residual", c_void_p),
        ("weight", c_void_p),
        ("out", c_void_p),
        ("delta_stride", c_int64),
        ("residual_stride", c_int64),
        ("out_stride", c_int64),
        ("rows", c_int32),
        ("width", c_int32),
        ("kind", c_int32),
        ("epsilon", c_float),
    )


class GateCall(ctypes.Structure):
    """`struct GateCall`."""

    _fields_ = (
        ("gate_up", c_void_p),
        ("out", c_void_p),
        ("gate_stride", c_int64),
        ("out_stride", c_int64),
        ("rows", c_int32),
        ("width", c_int32),
        ("kind", c_int32),
    )


class RopeCall(ctypes.Structure):
    """`struct RopeCall`."""

    _fields_ = (("rope", Rope), ("pages", Pages), ("rows", c_int32), ("kind", c_int32))


class AttentionCall(ctypes.Structure):
    """`struct AttentionCall`."""

    _fields_ = (
        ("heads", Heads),
        ("pages", Pages),
        ("rows", Rows),
        ("how", Score),
        ("kind", c_int32),
    )


class SampleCall(ctypes.Structure):
    """`struct Sample`."""

    _fields_ = (
        ("logits", c_void_p),
        ("stride", c_int64),
        ("rows", c_int32),
        ("tokens", c_int32),
        ("mask", c_void_p),
        ("mask_stride", c_int64),
        ("temperature", c_void_p),
        ("top_k", c_void_p),
        ("top_p", c_void_p),
        ("min_p", c_void_p),
        ("uniform", c_void_p),
        ("out", c_void_p),
    )


class CopyCall(ctypes.Structure):
    """`struct CopyCall`."""

    _fields_ = (
        ("source", c_void_p),
        ("target", c_void_p),
        ("pairs", c_void_p),
        ("source_stride", c_int64),
        ("target_stride", c_int64),
        ("bytes", c_int64),
        ("count", c_int32),
    )


class LinearCall(ctypes.Structure):
    """`struct LinearCall`."""

    _fields_ = (
        ("linear", Linear),
        ("x", c_void_p),
        ("out", c_void_p),
        ("x_stride", c_int64),
        ("out_stride", c_int64),
        ("rows", c_int32),
        ("kind", c_int32),
        ("wide", c_int32),
    )


class PackCall(ctypes.Structure):
    """`struct PackCall`."""

    _fields_ = (
        ("weight", c_void_p),
        ("packed", c_void_p),
        ("stride", c_int64),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("kind", c_int32),
        ("gated", c_int32),
    )


class GroupedCall(ctypes.Structure):
    """`struct GroupedCall`."""

    _fields_ = (
        ("x", c_void_p),
        ("weight", c_void_p),
        ("out", c_void_p),
        ("expert_start", c_void_p),
        ("x_stride", c_int64),
        ("out_stride", c_int64),
        ("row_stride", c_int64),
        ("expert_stride", c_int64),
        ("experts", c_int32),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("kind", c_int32),
    )


class StackLayer(ctypes.Structure):
    """`struct StackLayer`."""

    _fields_ = (
        ("qkv", Linear),
        ("out", Linear),
        ("gate_up", Linear),
        ("down", Linear),
        ("norm", c_void_p),
        ("inner_norm", c_void_p),
        ("query_norm", c_void_p),
        ("key_norm", c_void_p),
        ("page_offset", c_int64),
        ("epsilon", c_float),
        ("how", Score),
    )


class StackCall(ctypes.Structure):
    """`struct StackCall`."""

    _fields_ = (
        ("layers", c_void_p),
        ("embedding", c_void_p),
        ("norm", c_void_p),
        ("embedding_stride", c_int64),
        ("head", Linear),
        ("token_ids", c_void_p),
        ("positions", c_void_p),
        ("slots", c_void_p),
        ("wanted", c_void_p),
        ("angles", c_void_p),
        ("angles_stride", c_int64),
        ("logits", c_void_p),
        ("logits_stride", c_int64),
        ("pages", Pages),
        ("rows", Rows),
        ("layer_count", c_int32),
        ("heads", c_int32),
        ("hidden", c_int32),
        ("inner", c_int32),
        ("tokens", c_int32),
        ("wanted_tokens", c_int32),
        ("kind", c_int32),
        ("embedding_scale", c_float),
        ("epsilon", c_float),
    )


_CALLS = ("norm", "gate", "rope", "attend", "sample", "copy", "linear", "pack", "grouped", "stack")


class Native:
    """The library's functions; each takes the address of its struct.

    Attributes:
        path: Where it lies.
    """

    def __init__(self, path: Path) -> None:
        try:
            found = ctypes.CDLL(str(path))
            for name in _CALLS:
                function = getattr(found, f"agentrt_{name}")
                function.argtypes = (c_void_p,)
                function.restype = None
        except (OSError, AttributeError) as error:
            raise KernelsUnavailable(f"{path} cannot be loaded: {error}") from error
        self.path = path
        self.norm = found.agentrt_norm
        self.gate = found.agentrt_gate
        self.rope = found.agentrt_rope
        self.attend = found.agentrt_attend
        self.sample = found.agentrt_sample
        self.copy = found.agentrt_copy
        self.linear = found.agentrt_linear
        self.pack = found.agentrt_pack
        self.grouped = found.agentrt_grouped
        self.stack = found.agentrt_stack
        found.agentrt_threads.argtypes = (c_int32, c_int32)
        found.agentrt_threads.restype = None
        self.threads = found.agentrt_threads
        found.agentrt_trim.argtypes = ()
        found.agentrt_trim.restype = None
        self.trim = found.agentrt_trim
        self.register_bits = int(found.agentrt_lanes())
        self.has_bf16_dot = bool(found.agentrt_has_bf16_dot())


@cache
def native() -> Native:
    """The library, compiled at the first use on this machine.

    Raises:
        KernelsUnavailable: It cannot be had; the message says why.
    """
    return Native(library())

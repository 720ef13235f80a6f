"""The compiled library as Python calls it. The structs repeat those of `source/`."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu.build import library


def fields(*runs: tuple[str, type[Any]]) -> list[tuple[str, type[Any]]]:
    """The fields of a struct, given as C declares them: several names of one type."""
    return [(name, kind) for names, kind in runs for name in names.split()]


class Activation(ctypes.Structure):
    """`struct Activation`: how a gate opens."""

    _fields_ = fields(("slope cubic shift limit", c_float))


class Linear(ctypes.Structure):
    """`struct Linear`: one packed matrix and what becomes of its products."""

    _fields_ = fields(
        ("weight scales zeros factors bias order table", c_void_p),
        ("inputs outputs bits group row_bits coding after", c_int32),
        ("scale", c_float),
        ("activation", Activation),
    )


class Pages(ctypes.Structure):
    """`struct Pages`: where one layer's keys and values lie; no scales if they are no codes."""

    _fields_ = fields(
        ("memory", c_void_p),
        ("page_stride value_offset token_stride head_stride", c_int64),
        ("page_tokens kv_heads head_dim coding", c_int32),
        ("scales", c_void_p),
        ("scale_page_stride scale_value_offset scale_head_stride", c_int64),
    )


class Score(ctypes.Structure):
    """`struct Score`: 0 stands for no softcap and no window."""

    _fields_ = fields(("scaling softcap", c_float), ("window unseen", c_int32), ("sinks", c_void_p))


class Rows(ctypes.Structure):
    """`struct Rows`: which row sees which pages."""

    _fields_ = fields(
        ("query_start kv_tokens table", c_void_p),
        ("table_stride", c_int64),
        ("sequences groups", c_int32),
        ("member_start members prefix_tokens prefix_table", c_void_p),
        ("prefix_stride", c_int64),
    )


class Heads(ctypes.Structure):
    """`struct Heads`: queries and where their results go."""

    _fields_ = fields(
        ("query", c_void_p),
        ("query_stride query_head_stride", c_int64),
        ("out", c_void_p),
        ("out_stride out_head_stride", c_int64),
        ("heads", c_int32),
    )


class Rope(ctypes.Structure):
    """`struct Rope`."""

    _fields_ = fields(
        ("qkv", c_void_p),
        ("qkv_stride qkv_head_stride", c_int64),
        ("positions angles", c_void_p),
        ("angles_stride", c_int64),
        ("slots query_norm key_norm", c_void_p),
        ("norm_stride", c_int64),
        ("epsilon", c_float),
        ("centered heads", c_int32),
        ("query", c_void_p),
        ("query_stride query_head_stride", c_int64),
    )


class NormCall(ctypes.Structure):
    """`struct NormCall`."""

    _fields_ = fields(
        ("delta residual weight out", c_void_p),
        ("delta_stride residual_stride out_stride", c_int64),
        ("rows width kind wide centered", c_int32),
        ("epsilon", c_float),
    )


class GateCall(ctypes.Structure):
    """`struct GateCall`."""

    _fields_ = fields(
        ("gate_up out", c_void_p),
        ("gate_stride out_stride", c_int64),
        ("activation", Activation),
        ("rows width kind", c_int32),
    )


class RopeCall(ctypes.Structure):
    """`struct RopeCall`."""

    _fields_ = fields(("rope", Rope), ("pages", Pages), ("rows kind wide", c_int32))


class AttentionCall(ctypes.Structure):
    """`struct AttentionCall`."""

    _fields_ = fields(
        ("heads", Heads),
        ("pages", Pages),
        ("rows", Rows),
        ("how", Score),
        ("kind", c_int32),
    )


class SampleCall(ctypes.Structure):
    """`struct Sample`."""

    _fields_ = fields(
        ("logits", c_void_p),
        ("stride", c_int64),
        ("rows tokens", c_int32),
        ("mask", c_void_p),
        ("mask_stride", c_int64),
        ("temperature top_k top_p min_p uniform out", c_void_p),
    )


class CopyCall(ctypes.Structure):
    """`struct CopyCall`."""

    _fields_ = fields(
        ("source target pairs", c_void_p),
        ("source_stride target_stride bytes", c_int64),
        ("count", c_int32),
    )


class LinearCall(ctypes.Structure):
    """`struct LinearCall`."""

    _fields_ = fields(
        ("linear", Linear),
        ("x out", c_void_p),
        ("x_stride out_stride", c_int64),
        ("rows kind wide", c_int32),
    )


class PackCall(ctypes.Structure):
    """`struct PackCall`."""

    _fields_ = fields(
        ("weight packed", c_void_p),
        ("stride", c_int64),
        ("inputs outputs kind gated", c_int32),
    )


class PackCodesCall(ctypes.Structure):
    """`struct PackCodesCall`."""

    _fields_ = fields(
        ("values packed", c_void_p),
        ("stride", c_int64),
        ("inputs outputs bits gated middle", c_int32),
    )


class RoundCall(ctypes.Structure):
    """`struct RoundCall`."""

    _fields_ = fields(
        ("weight importance ends codes scales", c_void_p),
        ("weight_stride code_stride", c_int64),
        ("rows inputs group end_count bits kind", c_int32),
    )


class GroupedCall(ctypes.Structure):
    """`struct GroupedCall`."""

    _fields_ = fields(
        ("x weight out expert_start", c_void_p),
        ("x_stride out_stride row_stride expert_stride", c_int64),
        ("experts inputs outputs kind", c_int32),
    )


class ExpertsCall(ctypes.Structure):
    """`struct ExpertsCall`."""

    _fields_ = fields(
        ("gate_up down x out chosen shares", c_void_p),
        ("x_stride out_stride", c_int64),
        ("rows choices experts hidden inner kind", c_int32),
    )


class LoraPanel(ctypes.Structure):
    """`struct LoraPanel`: which ranks the columns of a panel see."""

    _fields_ = fields(("offset", c_int64), ("first past", c_int32))


class LoraMatrix(ctypes.Structure):
    """`struct LoraMatrix`: the part of one adapter in one linear."""

    _fields_ = fields(("down scales up panels", c_void_p), ("ranks", c_int32))


class StackLayer(ctypes.Structure):
    """`struct StackLayer`."""

    _fields_ = fields(
        ("qkv out gate_up down", Linear),
        ("qkv_lora out_lora gate_up_lora down_lora", c_void_p),
        ("norm out_norm inner_norm inner_out_norm query_norm key_norm angles", c_void_p),
        ("norm_stride page_offset scale_offset", c_int64),
        ("epsilon", c_float),
        ("how", Score),
    )


class Paired(ctypes.Structure):
    """`struct Paired`."""

    _fields_ = fields(
        ("table", c_void_p),
        ("stride", c_int64),
        ("rows norm", c_void_p),
        ("normed_stream", c_int32),
    )


class StackCall(ctypes.Structure):
    """`struct StackCall`."""

    _fields_ = fields(
        ("layers embedding norm", c_void_p),
        ("embedding_stride", c_int64),
        ("head", Linear),
        ("token_ids positions slots wanted adapters wanted_adapters", c_void_p),
        ("angles_stride", c_int64),
        ("logits", c_void_p),
        ("logits_stride", c_int64),
        ("layer_outputs captured captured_layers", c_void_p),
        ("paired", Paired),
        ("pages", Pages),
        ("rows", Rows),
        ("layer_count heads hidden inner tokens wanted_tokens kind centered parallel", c_int32),
        ("lora_ranks captures", c_int32),
        ("activation", Activation),
        ("embedding_scale residual_scale epsilon logits_softcap", c_float),
    )


_CALL = ctypes.CFUNCTYPE(None, c_void_p)


class Native:
    """The functions of the library at `path`; each takes the address of its struct.

    Attributes:
        has_byte_products: Whether rows for quantised weights can be rounded to eight bits.
    """

    def __init__(self, path: Path) -> None:
        try:
            found = ctypes.CDLL(str(path))
            self.norm = _CALL(("agentrt_norm", found))
            self.gate = _CALL(("agentrt_gate", found))
            self.rope = _CALL(("agentrt_rope", found))
            self.attend = _CALL(("agentrt_attend", found))
            self.sample = _CALL(("agentrt_sample", found))
            self.copy = _CALL(("agentrt_copy", found))
            self.linear = _CALL(("agentrt_linear", found))
            self.pack = _CALL(("agentrt_pack", found))
            self.pack_codes = _CALL(("agentrt_pack_codes", found))
            self.round = _CALL(("agentrt_round", found))
            self.grouped = _CALL(("agentrt_grouped", found))
            self.experts = _CALL(("agentrt_experts", found))
            self.stack = _CALL(("agentrt_stack", found))
            self.threads = ctypes.CFUNCTYPE(None, c_int32, c_int32)(("agentrt_threads", found))
            byte_products = ctypes.CFUNCTYPE(c_int32)(("agentrt_byte_products", found))
            self.has_byte_products = bool(byte_products())
            self.trim = ctypes.CFUNCTYPE(None)(("agentrt_trim", found))
        except (OSError, AttributeError) as error:
            raise KernelsUnavailable(f"{path} cannot be loaded: {error}") from error


@cache
def native() -> Native:
    """The library, compiled at the first use on this machine.

    Raises:
        KernelsUnavailable: Compiling or loading fails; the message says why.
    """
    return Native(library())

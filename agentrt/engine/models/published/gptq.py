"""The GPTQ format of AutoGPTQ and GPTQModel.

Codes lie in words of 32 bits along the inputs of a matrix that is written input by output, zeros
in words along the outputs. The first version of the format stores zeros less one.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.codes import (
    Bits,
    bytes_of_words,
    codes_of_words,
    input_order,
    kept_codes,
    packed_weight,
)
from agentrt.engine.models.published.stored_format import (
    FormatSettings,
    Size,
    StoredMatrix,
    StoredParts,
)

_READ = ("quant_method", "method", "bits", "group_size", "sym", "checkpoint_format", "format")
_OF_THE_DATA = ("desc_act", "static_groups", "true_sequential", "lm_head")
"""FormatSettings that the tensors tell as well: the order of inputs, which matrices are codes."""
OF_THE_MAKING = (
    *("damp_percent", "damp_auto_increment", "mse", "meta", "dataset", "tokenizer", "batch_size"),
    *("model_name_or_path", "model_file_base_name", "model_seqlen", "block_name_to_quantize"),
    *("module_name_preceding_first_block", "modules_in_block_to_quantize", "pad_token_id"),
    *("cache_block_outputs", "max_input_length", "use_cuda_fp16", "use_exllama", "exllama_config"),
    *("disable_exllama", "backend", "act_group_aware", "quantizer"),
)
"""FormatSettings of how a checkpoint was made, or of how another engine runs it."""
_OF_MODULES = (
    *("bits", "group_size", "sym", "desc_act", "static_groups", "act_group_aware"),
    *("damp_percent", "damp_auto_increment", "mse"),
)
"""Settings that may differ by module: the tensors tell them too, or they are of the making."""


class Gptq:
    """Matrices of GPTQ.

    Args:
        settings: The `quantization_config`.

    Raises:
        ModelInvalid: A setting is not known, or nothing computes what it says.
    """

    has_steps = True
    has_floats = False
    parts = StoredParts("qweight", ("qweight", "qzeros", "scales", "g_idx"))

    def __init__(self, settings: FormatSettings) -> None:
        settings.check_known(*_READ, *_OF_THE_DATA, *OF_THE_MAKING, "pack_dtype", "dynamic")
        settings.check_one_of("pack_dtype", ["int32"], "int32")
        self._bits: list[Bits] = [settings.check_one_of("bits", [4, 8])]
        self._groups = [_group_of(settings)]
        name = "checkpoint_format" if settings.get("checkpoint_format") else "format"
        version = settings.check_one_of(name, ["gptq", "gptq_v2"], "gptq")
        self._symmetric: bool = settings.check_one_of("sym", [True, False], True)
        modules = settings.inner("dynamic")
        for own in map(modules.inner, modules.names()):
            own.check_known(*_OF_MODULES)
            self._bits.append(own.check_one_of("bits", [4, 8], self._bits[0]))
            self._groups.append(_group_of(own, self._groups[0]))
            self._symmetric &= own.check_one_of("sym", [True, False], True)
        by_words = "gptqmodel" in str(settings.get("meta", "")).lower()
        self._less = 1 if version == "gptq" and not by_words else 0
        self._less_by_words = version == "gptq" and by_words

    @property
    def name(self) -> str:
        """Name for display."""
        return f"GPTQ {' and '.join(f'int{bits}' for bits in sorted(set(self._bits)))}"

    def size(self, matrix: StoredMatrix) -> Size:
        """See `StoredFormat`."""
        stored = matrix.sizes["qweight"]
        if len(stored) != 2:
            raise matrix.invalid(f"has qweight {stored}")
        return (stored[1], stored[0] * 32 // self._bits_of(matrix))

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """See `StoredFormat`."""
        rows, inputs = self.size(matrix)
        bits, group = self._bits_of(matrix), self._group_of(matrix, inputs)
        groups = -(-inputs // group)
        words, zero_words = (matrix.codes(part, torch.int32) for part in ("qweight", "qzeros"))
        scales = matrix.tensor("scales").t()
        if tuple(scales.shape) != (rows, groups):
            raise matrix.invalid(f"has scales {tuple(scales.t().shape)}")
        if self._less_by_words:
            zero_words = _more_by_words(zero_words, bits)
        zeros = codes_of_words(zero_words, bits).t()[:rows]
        if tuple(zeros.shape) != (rows, groups):
            raise matrix.invalid(f"has qzeros {tuple(zero_words.shape)}")
        zeros = zeros + self._less & (15 if bits == 4 else 255)
        if bits == 8:
            zeros = zeros.to(torch.int16) - 128
        if self._symmetric and not bool((zeros == (8 if bits == 4 else 0)).all()):
            raise matrix.invalid("has zeros of its own, and its config sets sym to true")
        order = input_order(matrix, "g_idx", group)
        values = kept_codes(bytes_of_words(words.t()), bits)
        own = None if self._symmetric else zeros
        return packed_weight(values, bits, scales, own, order, group)

    def _bits_of(self, matrix: StoredMatrix) -> Bits:
        """Bits of a matrix: where modules differ, those that its zeros have room for."""
        stored, zeros = matrix.sizes["qweight"], matrix.sizes.get("qzeros", ())
        for bits in self._bits:
            if len(zeros) == 2 and zeros[1] == -(-stored[1] * bits // 32):
                return bits
        return self._bits[0]

    def _group_of(self, matrix: StoredMatrix, inputs: int) -> int:
        """Inputs of a group: where modules differ, those of which there are as many as scales."""
        sizes = [inputs if group == -1 else group for group in self._groups]
        count = matrix.sizes.get("scales", (0,))[0]
        return next((size for size in sizes if -(-inputs // size) == count), sizes[0])


def _group_of(settings: FormatSettings, default: int | None = None) -> int:
    group = settings.integer("group_size", -1, default)
    if group == 0:
        raise settings.refused("group_size", "which is no such number")
    return group


def _more_by_words(words: Tensor, bits: Bits) -> Tensor:
    """Words of codes less one, as codes.

    GPTQModel subtracts from a whole word, so that a code of 0 borrows from the next one.
    """
    ones = 0x11111111 if bits == 4 else 0x01010101
    return (words.long() + ones).to(torch.int32)  # what is past 32 bits falls off

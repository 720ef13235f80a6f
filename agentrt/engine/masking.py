"""Masks of a step's rows, as the sampler takes them."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from agentrt.constraints import mask_words
from agentrt.engine.sequence import Sequence
from agentrt.errors import ConstraintError


class Masks:
    """Rows of the step that have a constraint.

    Attributes:
        allowed: `[rows, vocabulary]` bool, or None when every token may come in every row.
        seconds: How long each row's mask took.
        failed: Rows whose grammar gave up, with why.
    """

    __slots__ = ("allowed", "failed", "seconds")

    def __init__(self, rows: Rows[Sequence], logits_size: int, device: torch.device) -> None:
        self.allowed: Tensor | None = None
        self.seconds = [0.0] * len(rows)
        self.failed: dict[int, ConstraintError] = {}
        if all(one.guide is None for one in rows):
            return
        bits = np.full((len(rows), mask_words(logits_size)), -1, dtype=np.int32)
        for index, one in enumerate(rows):
            if one.guide is None:
                continue
            began = perf_counter()
            try:
                one.guide.fill_mask(bits[index])
            except ConstraintError as error:
                self.failed[index] = error
            self.seconds[index] = perf_counter() - began
        wide = np.unpackbits(bits.view(np.uint8), axis=1, count=logits_size, bitorder="little")
        self.allowed = torch.from_numpy(wide).to(device).bool()

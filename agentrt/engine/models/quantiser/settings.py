"""Settings of the quantisation of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.engine.models.quantiser.gptq import DAMPING

Method = Literal["int8", "int4", "fp8", "awq", "gptq"]


@dataclass(frozen=True, slots=True)
class QuantiserSettings:
    """How a checkpoint is quantised.

    Attributes:
        method: "int8", "int4" and "fp8" round to nearest, "awq" and "gptq" take four bits by
            calibration.
        group: Inputs that share a scale; 0 is a whole row.
        kept: Patterns of modules that stay plain.
        eight_bits: Patterns of modules that take eight bits.
        damping: Share of the Hessian's mean diagonal that GPTQ adds to it.
        orders_inputs: Whether GPTQ rounds inputs with the largest second moments first.
    """

    method: Method
    group: int
    kept: tuple[str, ...] = ()
    eight_bits: tuple[str, ...] = ()
    damping: float = DAMPING
    orders_inputs: bool = True

    @property
    def calibrates(self) -> bool:
        """Whether the method looks at activations."""
        return self.method in ("awq", "gptq")

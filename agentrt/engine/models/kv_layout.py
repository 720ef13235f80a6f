"""Layout of a model's KV, from its sizes and the settings of the engine."""

from __future__ import annotations

from typing import Protocol

from agentrt.engine.kv.cache import KvLayout
from agentrt.engine.models.load_plan import LoadPlan
from agentrt_kernels.kv_codes import CODE_DTYPES


class KvSizes(Protocol):
    """Sizes of a model that its KV depends on.

    Attributes:
        layers: Attention layers.
        kv_heads: Heads of keys and values.
        head_dim: Width of one head.
    """

    @property
    def layers(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


def kv_layout(plan: LoadPlan, sizes: KvSizes, *, as_computed: bool = False) -> KvLayout:
    """Layout of the KV of a model.

    Args:
        plan: Dtype, device and settings.
        sizes: Sizes of the model.
        as_computed: Whether values stay as they are computed, whatever the settings say: a network
            is compared without the rounding that they ask for.
    """
    return KvLayout(
        layers=sizes.layers,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        page_tokens=plan.config.page_tokens,
        dtype=plan.dtype,
        device=plan.device,
        codes=None if as_computed else CODE_DTYPES.get(plan.config.kv_cache_dtype),
    )

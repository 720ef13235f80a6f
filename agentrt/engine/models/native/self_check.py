"""Self-check: compares the engine's logits with those of transformers, once a kind of checkpoint.

The result depends on the config, the names and shapes of the weights, the versions and this code,
not on the weights' values. It is stored under ~/.cache/agentrt/checked and holds for later starts.
The first start with an unknown kind of checkpoint imports transformers and loads the model twice,
one after the other, so that memory never holds both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

import agentrt_kernels
from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.engine.batch.batch import pack
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.models.native.build import EngineNetwork
from agentrt.engine.ops.attention import PagedAttention, attending_with

PROBE_TOKENS = 32
_LIMITS = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
"""Largest error of a token's logits, as a share of their spread. In fp32 it holds for all tokens,
else for half of them: where two experts are nearly equal, rounding decides.
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SelfCheckResult:
    """Result of a self-check.

    Attributes:
        state: "held" if compared and found equal, "failed", "unknown", or "trusted" without a
            check.
        reason: Why, for display.
    """

    state: Literal["held", "failed", "unknown", "trusted"]
    reason: str


def skipped_check(config: EngineConfig) -> SelfCheckResult | None:
    """Why a native network is not compared with transformers; None if it is."""
    if config.random_weights:
        return SelfCheckResult("trusted", "random weights have nothing to be held to")
    if config.self_check == "never":
        return SelfCheckResult("trusted", "self_check=never")
    shipped = config.model_path.resolve() == Path(embedded.path()).resolve()
    if shipped and config.self_check == "auto":
        return SelfCheckResult("trusted", "the model that comes with agentrt is held by its tests")
    return None


def stored_result(config: EngineConfig, key: str) -> SelfCheckResult:
    """Result that an earlier start stored.

    Args:
        config: Config of the engine.
        key: Kind of checkpoint, from `fingerprint`.
    """
    if config.self_check == "always":
        return SelfCheckResult("unknown", "self_check=always")
    try:
        stored = json.loads((cache_directory() / f"{key}.json").read_text(encoding="utf-8"))
        state: Literal["held", "failed"] = "held" if stored["equal"] is True else "failed"
        return SelfCheckResult(state, str(stored["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return SelfCheckResult("unknown", "never checked on this machine")


def fingerprint(
    hf_config: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    config: EngineConfig,
    computed_by: str,
) -> str:
    """Digest of everything that the result depends on.

    Args:
        hf_config: Config of the checkpoint.
        shapes: Names and shapes of its weights.
        config: Config of the engine.
        computed_by: Dtype and kernels.
    """
    packages = [f"{name} {version(name)}" for name in ("torch", "transformers")]
    checkpoint = [dict(hf_config), sorted(shapes.items())]
    parts = [*checkpoint, config.device, computed_by, packages, _source_digest()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def reference_logits(path: Path, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Logits of transformers for the probe, `[PROBE_TOKENS, vocabulary]` fp32.

    Raises:
        ModelInvalid: transformers cannot load the checkpoint.
    """
    from agentrt.engine.models.hf_model import load_hf  # takes three seconds

    module = load_hf(path, dtype, device, random_seed=None).module
    module.set_attn_implementation("eager")
    with torch.inference_mode():
        logits: Tensor = module(_probe_ids(module.config.vocab_size, device)[None]).logits
    return logits[0].float()


def network_logits(network: EngineNetwork, layout: KvLayout, heads: int, vocabulary: int) -> Tensor:
    """Logits of the network for the probe."""
    pages = -(-PROBE_TOKENS // layout.page_tokens)
    kv = KvCache(layout, pages)
    tables = BlockTables(1, pages, kv)
    tables.write(0, 0, list(range(pages)))  # type: ignore[arg-type]  # page numbers
    ids = _probe_ids(vocabulary, layout.device)
    batch = pack([SequenceSlice(0, ids.tolist(), 0, wants_logits=True)], kv, tables)
    batch.logit_rows = torch.arange(PROBE_TOKENS, device=layout.device)
    attention = PagedAttention(kv, tables, heads=heads, tile_tokens=PROBE_TOKENS)
    network.bind(kv, PROBE_TOKENS)
    attention.begin_batch(batch)
    with torch.inference_mode(), attending_with(attention):
        return network(batch).float()


def compare_logits(logits: Tensor, reference: Tensor, dtype: torch.dtype) -> SelfCheckResult:
    """Whether two sets of logits come from the same model."""
    spread = (reference - reference.mean(-1, keepdim=True)).square().mean(-1).sqrt()
    spread = spread.clamp_min(torch.finfo(torch.float32).tiny)  # all logits of a token equal
    each = (logits - reference).square().mean(-1).sqrt() / spread  # [tokens]
    error = float(each.max() if dtype == torch.float32 else each.median())
    equal = error <= _LIMITS[dtype]  # a NaN is not
    reason = f"logits {'are' if equal else 'differ:'} within {error:.1e} of transformers'"
    return SelfCheckResult("held" if equal else "failed", reason)


def store_result(key: str, result: SelfCheckResult) -> None:
    """Store a result for later starts; a failed write is only logged."""
    file = cache_directory() / f"{key}.json"
    temporary = file.with_suffix(f".{os.getpid()}")
    text = json.dumps({"equal": result.state == "held", "reason": result.reason})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        _log.warning("the self-check is not kept: %s", error)


def _probe_ids(vocabulary: int, device: torch.device) -> Tensor:
    """`[PROBE_TOKENS]` int64, ids from all over the vocabulary."""
    indices = torch.arange(1, PROBE_TOKENS + 1, device=device)
    return indices * 7919 % vocabulary


def cache_directory() -> Path:
    """Directory of the stored results."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "agentrt" / "checked"


def _source_digest() -> str:
    """Digest of the code that computes: a change repeats the check."""
    digest = hashlib.sha256()
    roots = (Path(__file__).resolve().parents[2], Path(agentrt_kernels.__file__).parent)
    for file in sorted(file for room in roots for file in room.rglob("*") if _is_source(file)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_source(file: Path) -> bool:
    return file.suffix in (".py", ".h", ".cpp")

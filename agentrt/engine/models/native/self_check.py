"""Self-check: compares the engine's logits with those of transformers, once a kind of checkpoint.

The result depends on the config, the names and shapes of the weights, the versions and this code,
not on the weights' values. It is stored under ~/.cache/agentrt/checked and holds for later starts.
The first start with an unknown kind of checkpoint imports transformers and loads the model twice,
one after the other, so that memory never holds both.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

import agentrt_kernels
from agentrt import embedded
from agentrt.base.atomic_write import write_atomically
from agentrt.base.config import EngineConfig
from agentrt.base.user_folders import cache_folder
from agentrt.engine.batch.batch import ForwardBatch, pack
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.ops.attention import PagedAttention, attending_with
from agentrt_kernels.contract import Kernels

_STEPS = ((20, 7), (11, 3), (1, 1))
"""Tokens of each sequence of the probe in each step: chunks and then decodes, of unequal lengths in
one batch.
"""
_SEQUENCES = tuple(sum(counts) for counts in zip(*_STEPS, strict=True))
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


class ProbedNetwork(Protocol):
    """The part of a network that a self-check uses."""

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache and for forwards of up to `max_rows` tokens."""

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the batch's `logit_rows`."""
        ...


def skipped_check(config: EngineConfig) -> SelfCheckResult | None:
    """Why a network is not compared with transformers; None if it is."""
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
        if config.expert_memory:
            return SelfCheckResult("trusted", "transformers would hold all experts in memory")
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
    """Logits of transformers for the probe.

    Raises:
        ModelInvalid: transformers cannot load the checkpoint.
    """
    from agentrt.engine.models.hf_model import load_hf  # takes three seconds

    return module_logits(load_hf(path, dtype, device, random_seed=None).module)


def module_logits(module: Any) -> Tensor:
    """Logits of a transformers model by itself for the probe, `[tokens, vocabulary]` fp32.

    Each sequence is computed alone and at once, without its first row. As in `generate()`, it comes
    with its positions if the model takes any: some models begin elsewhere than at 0 by themselves.
    """
    used = module.config._attn_implementation
    module.set_attn_implementation("eager")
    vocabulary = module.config.get_text_config().vocab_size
    with torch.inference_mode():
        probe = _probe_ids(vocabulary)
        logits = [_logits_of(module, torch.tensor([ids], device=module.device)) for ids in probe]
    module.set_attn_implementation(used)
    return torch.cat(logits).float()


def _logits_of(module: Any, ids: Tensor) -> Tensor:
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    takes_positions = "position_ids" in inspect.signature(module.forward).parameters
    more = {"position_ids": positions} if takes_positions else {}
    logits: Tensor = module(input_ids=ids, use_cache=False, **more).logits[0, 1:]
    return logits


def network_logits(
    network: ProbedNetwork,
    layout: KvLayout,
    heads: int,
    vocabulary: int,
    kernels: Kernels | None = None,
) -> Tensor:
    """Logits of the network for the probe, `[tokens, vocabulary]` fp32.

    The sequences are computed in one batch, in chunks that find the KV of the chunks before them.
    Their first rows get no logits, as most rows of a prompt.
    """
    count, tile_tokens = len(_SEQUENCES), max(_SEQUENCES)
    pages = -(-tile_tokens // layout.page_tokens)
    kv = KvCache(layout, count * pages)
    tables = BlockTables(count, pages, kv)
    for slot in range(count):
        own = range(slot * pages, (slot + 1) * pages)
        tables.write(slot, 0, list(own))  # type: ignore[arg-type]  # page numbers
    network.bind(kv, sum(_STEPS[0]))
    attention = PagedAttention(kv, tables, heads=heads, tile_tokens=tile_tokens, kernels=kernels)
    probe, done = _probe_ids(vocabulary), [0] * count
    logits: list[list[Tensor]] = [[] for _ in probe]
    for step in _STEPS:
        slices = [
            SequenceSlice(slot, ids[done[slot] :][:tokens], done[slot], wants_logits=True)
            for slot, (ids, tokens) in enumerate(zip(probe, step, strict=True))
        ]
        batch = pack(slices, kv, tables)
        rows = [range(sum(step[:slot]), sum(step[: slot + 1])) for slot in range(count)]
        wanted = [part if before else part[1:] for part, before in zip(rows, done, strict=True)]
        batch.logit_rows = torch.tensor(list(chain(*wanted)), device=layout.device)
        attention.begin_batch(batch)
        with torch.inference_mode(), attending_with(attention):
            made_rows = network(batch).float()
        for made, part in zip(logits, wanted, strict=True):
            made.append(made_rows[: len(part)].clone())
            made_rows = made_rows[len(part) :]
        done = [before + tokens for before, tokens in zip(done, step, strict=True)]
    return torch.cat([torch.cat(made) for made in logits])


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
    text = json.dumps({"equal": result.state == "held", "reason": result.reason})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    except OSError as error:
        _log.warning("the self-check is not kept: %s", error)


def _probe_ids(vocabulary: int) -> list[list[int]]:
    """Ids of each sequence, from all over the vocabulary."""
    return [
        [(at + 7 * number) * 7919 % vocabulary for at in range(1, tokens + 1)]
        for number, tokens in enumerate(_SEQUENCES)
    ]


def cache_directory() -> Path:
    """Directory of the stored results."""
    return cache_folder(os.environ) / "checked"


def _source_digest() -> str:
    """Digest of the code that computes: a change repeats the check."""
    digest = hashlib.sha256()
    roots = (Path(__file__).resolve().parents[2], Path(agentrt_kernels.__file__).parent)
    for file in sorted(file for room in roots for file in room.rglob("*") if _is_source(file)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_source(file: Path) -> bool:
    return file.suffix in (".py", ".h", ".cpp")

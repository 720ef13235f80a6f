"""Is what is computed here what transformers computes? Asked once for each kind of checkpoint.

The answer depends on the config, the names and shapes of the weights, the versions and this code,
not on the weights' values: it is kept under ~/.cache/agentrt/checked and holds for every start
after. The first start with an unknown kind of checkpoint imports transformers and loads the model
twice, one after the other, so that memory never holds both.
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
from agentrt.engine.models.native.build import KnownDecoder
from agentrt.engine.ops.attention import PagedAttention, serving

PROBE_TOKENS = 32
_LIMITS = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
"""How far the logits of a token may be apart, as a share of their spread. In fp32 this holds for
all tokens, else for half of them: where two experts are nearly equal, rounding chooses."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SelfCheckResult:
    """What is known.

    Attributes:
        state: "held" to transformers and found equal, "failed", "unknown", or "trusted" unasked.
        reason: For people.
    """

    state: Literal["held", "failed", "unknown", "trusted"]
    reason: str


def unasked(config: EngineConfig) -> SelfCheckResult | None:
    """Why a decoder that is computed here is not held to transformers; None where it is."""
    if config.random_weights:
        return SelfCheckResult("trusted", "random weights have nothing to be held to")
    if config.self_check == "never":
        return SelfCheckResult("trusted", "self_check=never")
    shipped = config.model_path.resolve() == Path(embedded.path()).resolve()
    if shipped and config.self_check == "auto":
        return SelfCheckResult("trusted", "the model that comes with agentrt is held by its tests")
    return None


def kept_verdict(config: EngineConfig, key: str) -> SelfCheckResult:
    """What an earlier start found out.

    Args:
        config: Of the engine.
        key: Of the kind of checkpoint, from `fingerprint`.
    """
    if config.self_check == "always":
        return SelfCheckResult("unknown", "self_check=always")
    try:
        kept = json.loads((home() / f"{key}.json").read_text(encoding="utf-8"))
        return SelfCheckResult("held" if kept["equal"] is True else "failed", str(kept["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return SelfCheckResult("unknown", "never checked on this machine")


def fingerprint(
    facts: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], config: EngineConfig, how: str
) -> str:
    """Of everything that the answer depends on.

    Args:
        facts: The checkpoint's config.
        shapes: Names and shapes of its weights.
        config: Where it runs.
        how: Dtype and kernels.
    """
    packages = [f"{name} {version(name)}" for name in ("torch", "transformers")]
    told = [dict(facts), sorted(shapes.items()), config.device, how, packages, _sources()]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def reference_logits(path: Path, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What transformers computes for the probe, `[PROBE_TOKENS, vocabulary]` fp32.

    Raises:
        ModelInvalid: transformers cannot load the checkpoint.
    """
    from agentrt.engine.models.hf_model import load_hf  # takes three seconds

    module = load_hf(path, dtype, device, random_seed=None).module
    module.set_attn_implementation("eager")
    with torch.inference_mode():
        logits: Tensor = module(_probe(module.config.vocab_size, device)[None]).logits
    return logits[0].float()


def fast_logits(decoder: KnownDecoder, layout: KvLayout, heads: int, vocabulary: int) -> Tensor:
    """What the decoder computes for it."""
    pages = -(-PROBE_TOKENS // layout.page_tokens)
    kv = KvCache(layout, pages)
    tables = BlockTables(1, pages, kv)
    tables.write(0, 0, list(range(pages)))  # type: ignore[arg-type]  # page numbers
    ids = _probe(vocabulary, layout.device)
    batch = pack([SequenceSlice(0, ids.tolist(), 0, wants_logits=True)], kv, tables)
    batch.logit_rows = torch.arange(PROBE_TOKENS, device=layout.device)
    attention = PagedAttention(kv, tables, heads=heads, tile_tokens=PROBE_TOKENS)
    decoder.bind(kv, PROBE_TOKENS)
    attention.begin(batch)
    with torch.inference_mode(), serving(attention):
        return decoder(batch).float()


def judge(mine: Tensor, theirs: Tensor, dtype: torch.dtype) -> SelfCheckResult:
    """Whether two sets of logits are the same model's."""
    spread = (theirs - theirs.mean(-1, keepdim=True)).square().mean(-1).sqrt()
    spread = spread.clamp_min(torch.finfo(torch.float32).tiny)  # of a token that says nothing
    each = (mine - theirs).square().mean(-1).sqrt() / spread  # [tokens]
    apart = float(each.max() if dtype == torch.float32 else each.median())
    equal = apart <= _LIMITS[dtype]  # a NaN is not
    reason = f"logits {'are' if equal else 'differ:'} within {apart:.1e} of transformers'"
    return SelfCheckResult("held" if equal else "failed", reason)


def keep(key: str, verdict: SelfCheckResult) -> None:
    """For later starts; where nothing can be written, they ask again."""
    file = home() / f"{key}.json"
    fresh = file.with_suffix(f".{os.getpid()}")
    text = json.dumps({"equal": verdict.state == "held", "reason": verdict.reason})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        _log.warning("the self-check is not kept: %s", error)


def _probe(vocabulary: int, device: torch.device) -> Tensor:
    """`[PROBE_TOKENS]` int64, ids from all over the vocabulary."""
    places = torch.arange(1, PROBE_TOKENS + 1, device=device)
    return places * 7919 % vocabulary


def home() -> Path:
    """Where answers are kept."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "agentrt" / "checked"


def _sources() -> str:
    """Digest of the code that computes: a change asks again."""
    digest = hashlib.sha256()
    rooms = (Path(__file__).resolve().parents[2], Path(agentrt_kernels.__file__).parent)
    for file in sorted(file for room in rooms for file in room.rglob("*") if _is_source(file)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_source(file: Path) -> bool:
    return file.suffix in (".py", ".h", ".cpp")

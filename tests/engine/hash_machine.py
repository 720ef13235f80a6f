"""An engine whose model is a hash: real pages and batches, and steps that take microseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.engine.batch.batch import BatchPacker
from agentrt.engine.batch.input_packing import logit_rows
from agentrt.engine.batch.shared_prefix import SharedPrefixes
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt_kernels.reference import Reference
from tests.oracles.clocked_core import ClockedCore

VOCABULARY = 262
"""Bytes and the special tokens of `conftest`."""

END_ID = 257


@cache
def hashed_logits() -> np.ndarray:
    """Logits by hash; so many that two contexts seldom share theirs. float32 [hash, vocabulary]"""
    return np.random.default_rng(0).standard_normal((4096, VOCABULARY), dtype=np.float32)


class HashMachine:
    """A machine whose model is a hash: logits depend on every token that its pages hold.

    KV memory, block tables and packing are the real ones; a token's id is stored as its key, and
    what comes next depends on the ids found through the block table, in order. So a page that is
    shared by mistake, overwritten or lost changes tokens, and a step takes microseconds.
    """

    codes: torch.dtype | None = None
    expert_load = None
    expert_offload = None
    layer_states = None

    def __init__(self, config: EngineConfig, eos_bias: float) -> None:
        cpu = torch.device("cpu")
        layout = KvLayout(1, 1, 1, config.page_tokens, torch.float32, cpu, self.codes)
        self.model = SimpleNamespace(
            layout=layout,
            page_bytes=layout.page_bytes,
            logits_size=VOCABULARY,
            window_tokens=0,
            rope_threshold=0,
            **{"name": "hash", "report": None},
            kernels=Reference(),
        )
        self.kv = KvCache(layout, config.kv_pages)
        self.tables = BlockTables(config.max_running, config.kv_pages, self.kv)
        self.last = torch.zeros(config.max_running, dtype=torch.int64)
        self.page_tokens, self.eos_bias = config.page_tokens, eos_bias
        sizes = {"max_tokens": config.step_tokens, "max_sequences": config.max_running}
        self.packer = BatchPacker(self.kv, self.tables, self.last, **sizes)
        self.siblings = SharedPrefixes(self.tables, config.page_tokens)
        self.named_by_slot = 0
        self.threads = None

    def forward(self, parts):
        batch = self.packer.pack(parts, self.siblings.find(parts))
        self.named_by_slot += sum(part.token_ids[-1] < 0 for part in parts)
        slots = batch.fields.slot_mapping.numpy()
        where = slots // self.page_tokens, slots % self.page_tokens
        self.store(where, batch.fields.token_ids.numpy())
        keys = self.stored_ids()
        wanted = np.array(logit_rows(parts), dtype=np.int64)
        start = batch.paged.query_start.numpy()
        owners = np.searchsorted(start, wanted, "right") - 1
        behind = start[owners + 1] - 1 - wanted  # rows of the same sequence after it
        contexts = (batch.paged.kv_tokens.numpy()[owners] - behind).tolist()
        tables = batch.paged.block_table.numpy()
        known = hashed_logits()
        logits = np.empty((len(wanted), VOCABULARY), dtype=np.float32)
        for row, (owner, context) in enumerate(zip(owners.tolist(), contexts, strict=True)):
            seen = keys[tables[owner]].reshape(-1)[:context].astype(np.int32)
            digest = blake2b(seen.tobytes(), digest_size=8).digest()
            logits[row] = known[int.from_bytes(digest, "big") % len(known)]
        logits[:, END_ID] += self.eos_bias
        return torch.from_numpy(logits)

    def store(self, where, token_ids):
        """Store ids at (pages, offsets)."""
        self.kv.memory[:, 0, 0, :, 0, 0].numpy()[where] = token_ids

    def stored_ids(self) -> np.ndarray:
        """Ids that the pages hold, `[pages, page]`."""
        ids: np.ndarray = self.kv.memory[:, 0, 0, :, 0, 0].numpy()
        return ids

    def remember_tokens(self, slots, token_ids):
        self.last[list(slots)] = token_ids


class CodedHashMachine(HashMachine):
    """A hash whose KV is codes with scales: an id is half in the one and half in the other.

    So a page whose codes were moved, shared, offloaded or loaded without their scales, or these
    without those, changes tokens.
    """

    codes = torch.int8

    def store(self, where, token_ids):
        pages, offsets = (torch.from_numpy(one) for one in where)
        ids, scales = torch.from_numpy(token_ids), self.kv.scales
        assert scales is not None
        self.kv.memory.view(torch.int8)[pages, 0, 0, offsets, 0, 0] = (ids % 64).to(torch.int8)
        scales[pages, 0, 0, 0, offsets] = (ids // 64).to(torch.bfloat16)

    def stored_ids(self):
        scales = self.kv.scales
        assert scales is not None
        ids = (
            self.kv.memory.view(torch.int8)[:, 0, 0, :, 0, 0].int() + 64 * scales[:, 0, 0, 0].int()
        )
        return ids.numpy()


class FloatHashMachine(CodedHashMachine):
    """The same in bytes of FP8."""

    codes = torch.float8_e4m3fn


def hash_core(
    path: Path,
    *,
    eos_bias: float = 0.0,
    runner: type[HashMachine] = HashMachine,
    draft_runner: type[HashMachine] | None = None,
    **settings: Any,
) -> ClockedCore:
    """An engine that computes hashes; `path` needs a tokenizer only."""
    config = EngineConfig(path, **{"kv_pages": 256, **settings}).sized()
    clock, machine = FakeClock(), runner(config, eos_bias)
    draft = None if draft_runner is None else draft_runner(config, eos_bias)
    executor = ModelExecutor(config, clock, runner=machine, draft_runner=draft)  # type: ignore[arg-type]
    return ClockedCore(config, clock, executor)


def steered(machine: type, token_at: Callable[[int], int]) -> type:
    """A hash model that writes `token_at(position)` behind each position."""

    class Steered(machine):
        def forward(self, parts):
            logits = super().forward(parts)
            row = 0
            for part in parts:
                if part.wants_logits:
                    end = part.first_position + len(part.token_ids)
                    for position in range(end - 1 - part.draft_tokens, end):
                        logits[row, token_at(position)] += 99.0
                        row += 1
            return logits

    return Steered

"""Batches of KV events as vLLM and SGLang publish them, in msgpack.

Both have written their events as arrays, with the tag first, and write them as maps now. Fields
that one of them lacks are None. Sources: `vllm/distributed/kv_events.py` and
`sglang/srt/disaggregation/kv_events.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from agentrt.scheduler.placement.held_blocks import (
    BlockHash,
    ClearedBlocks,
    KvEvent,
    RemovedBlocks,
    StoredBlocks,
)

MOST_PAYLOAD_BYTES = 64 << 20
"""Size of a batch beyond which it is not read."""

_BATCH = ("ts", "events", "data_parallel_rank")
_STORED = (
    *("type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
    *("lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"),
)
_REMOVED = ("type", "block_hashes", "medium", "group_idx")
_WHOLE = (None, "full_attention")
_MOST_TOKEN_ID = (1 << 31) - 1


class MalformedBatch(ValueError):
    """A payload is no batch of KV events."""


class BatchReader:
    """Reader of the batches of one server.

    Only blocks in GPU memory count, as prompts are computed from these. A model with several kinds
    of attention has a group of blocks for each; the first one with full attention counts, since
    others lose blocks that no prompt needs any more.
    """

    def __init__(self) -> None:
        self._group: int | None = None

    def read(self, payload: bytes) -> list[KvEvent]:
        """The events of a batch, without those that say nothing about prompts of token ids.

        Raises:
            MalformedBatch: The payload is no batch.
        """
        try:
            batch = msgpack.unpackb(payload, strict_map_key=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise MalformedBatch(f"no msgpack: {error}") from None
        events = _named(batch, _BATCH).get("events")
        if not isinstance(events, list):
            raise MalformedBatch("a batch without a list of events")
        found = (self._event(one) for one in events)
        return [one for one in found if one is not None]

    def _event(self, row: Any) -> KvEvent | None:
        tag = str(_named(row, _REMOVED).get("type"))
        if tag == "AllBlocksCleared":
            return ClearedBlocks()
        if tag == "BlockRemoved":
            return self._removed(_named(row, _REMOVED))
        return self._stored(_named(row, _STORED)) if tag.startswith("BlockStored") else None

    def _removed(self, row: Mapping[str, Any]) -> RemovedBlocks | None:
        hashes = _hashes(row.get("block_hashes"))
        is_ours = (row.get("group_idx") or 0) == (self._group or 0)
        return RemovedBlocks(hashes) if hashes and is_ours and _is_on_gpu(row) else None

    def _stored(self, row: Mapping[str, Any]) -> StoredBlocks | None:
        hashes, token_ids = _hashes(row.get("block_hashes")), _ids(row.get("token_ids"))
        parent = row.get("parent_block_hash")
        adapter: Any = row.get("lora_name")
        given = row.get("cache_salt")
        if isinstance(adapter, dict):  # SGLang 0.5.18 has a map of more in this place
            adapter, given = None, adapter.get("cache_salt")
        if not hashes or not _is_on_gpu(row) or row.get("lora_id") is not None or adapter:
            return None
        if not isinstance(parent, int | bytes | None) or not token_ids:
            return None
        group = row.get("group_idx") or 0
        if self._group is None and row.get("kv_cache_spec_kind") in _WHOLE:
            self._group = group
        if group != self._group:
            return None
        salt = _salt(given, row.get("extra_keys"))
        return None if salt is None else StoredBlocks(hashes, parent, token_ids, salt)


def _named(row: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """The fields of a map, or of an array in the order of the names."""
    if isinstance(row, dict):
        return row
    return dict(zip(names, row, strict=False)) if isinstance(row, list) else {}


def _hashes(value: Any) -> tuple[BlockHash, ...]:
    whole = isinstance(value, list) and all(isinstance(one, int | bytes) for one in value)
    return tuple(value) if whole else ()


def _ids(value: Any) -> tuple[int, ...]:
    whole = isinstance(value, list) and all(
        type(one) is int and 0 <= one <= _MOST_TOKEN_ID for one in value
    )
    return tuple(value) if whole else ()


def _is_on_gpu(row: Mapping[str, Any]) -> bool:
    return str(row.get("medium") or "GPU").upper() == "GPU"


def _salt(given: Any, extra_keys: Any) -> str | None:
    """The salt of a prompt; None if its blocks depend on more than tokens and a salt.

    vLLM names what blocks depend on beside their tokens, one entry a block: the first one of a
    prompt has the salt. Images are there, too, and have a place in the prompt.
    """
    if isinstance(given, str):
        return given
    rows = extra_keys if isinstance(extra_keys, list) else []
    found = [key for keys in rows if isinstance(keys, list) for key in keys]
    if not found:
        return ""
    return found[0] if len(found) == 1 and isinstance(found[0], str) else None

"""The model that all servers serve, and the memory and threads that each gets."""

from __future__ import annotations

from pathlib import Path

from agentrt.base.record import record
from agentrt.prompt import Codec

PAGE_TOKENS = 16
"""Tokens of a KV page, in our engine and in peers that divide their memory into pages."""
WAITS = ("passive", "active")


@record
class Served:
    """The model that every server serves, and the memory that it gets.

    Attributes:
        model: Checkpoint directory.
        dtype: Dtype of the computation, `float32` or `bfloat16`.
        slots: Requests that a server with fixed slots runs at once: one for each branch.
        kv_tokens: Tokens that fit into its KV memory.
        longest_tokens: Longest request with its answer; 0 takes the model's window.
        replay: Recorded outputs that our engine writes; None if it samples.
    """

    model: Path
    dtype: str
    slots: int = 16
    kv_tokens: int = 32_768
    longest_tokens: int = 0
    replay: Path | None = None

    @property
    def name(self) -> str:
        """Name of the model in requests."""
        return self.model.resolve().name

    def no_text(self) -> list[int]:
        """Token ids that no output may have if `ignore_eos` forces its length."""
        vocab = Codec.load(self.model).vocab
        return sorted({*vocab.eos_ids, *vocab.special_ids.values()})


def thread_counts(cores: int) -> list[int]:
    """Numbers of threads that may be a peer's best."""
    return sorted({1, cores} if cores <= 2 else {1, cores // 2, cores})


def thread_env(threads: int, wait: str) -> dict[str, str]:
    """Environment of transformers: its threads, and how they wait if that is chosen."""
    policy = {"OMP_WAIT_POLICY": wait.upper()} if wait else {}
    return {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", **policy}

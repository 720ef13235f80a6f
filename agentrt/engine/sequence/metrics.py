"""The account of one request: every instant between its arrival and its end is booked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.protocol.step_output import Ledger

Bucket = Literal["hole", "queue", "prefill", "decode", "constraint"]


@dataclass(slots=True, eq=False)
class RequestMetrics:
    """Grows while the request lives; `close` makes the ledger of it.

    Attributes:
        received_at_s: The engine had the request.
        mark_s: Everything before this instant is booked.
    """

    received_at_s: float
    mark_s: float
    completed_at_s: float = 0.0
    admitted_at_s: float = 0.0
    first_token_at_s: float = 0.0
    hole_s: float = 0.0
    queue_s: float = 0.0
    kv_reload_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    constraint_s: float = 0.0
    cached_tokens: int = 0
    cached_host_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_chunks: int = 0
    forced_tokens: int = 0
    steps: int = 0
    batch_size_sum: int = 0
    preemptions: int = 0
    _reload_s: float = 0.0

    def note_reload(self, tokens: int, seconds: float) -> None:
        """KV of some tokens came back from the host; `start` books the time."""
        self.cached_host_tokens += tokens
        self._reload_s += seconds

    def start(self, bucket: Bucket, now_s: float) -> None:
        """The sequence runs from `now_s` on; what was copied for it came after."""
        self.book(bucket, now_s)
        if self.admitted_at_s == 0.0:
            self.admitted_at_s = now_s
        self.kv_reload_s += self._reload_s
        self.mark_s += self._reload_s
        self._reload_s = 0.0

    def book(self, bucket: Bucket, now_s: float) -> None:
        """What has passed since the last booking went into `bucket`."""
        self.add(bucket, now_s - self.mark_s)
        self.mark_s = now_s

    def add(self, bucket: Bucket, seconds: float) -> None:
        """Book some seconds without moving the mark."""
        match bucket:
            case "hole":
                self.hole_s += seconds
            case "queue":
                self.queue_s += seconds
            case "prefill":
                self.prefill_s += seconds
            case "decode":
                self.decode_s += seconds
            case "constraint":
                self.constraint_s += seconds

    def spend(self, bucket: Bucket, seconds: float) -> None:
        """Of what has passed since the last booking, so many seconds went into `bucket`."""
        self.add(bucket, seconds)
        self.mark_s += seconds

    def book_step(
        self, bucket: Bucket, now_s: float, masks_s: float, batch_size: int, steps: int = 1
    ) -> None:
        """A step of the sequence is over, or several equal ones; its grammar took `masks_s`."""
        passed_s = now_s - self.mark_s
        masks_s = min(masks_s, passed_s)
        self.constraint_s += masks_s
        self.add(bucket, passed_s - masks_s)
        self.mark_s = now_s
        self.steps += steps
        self.batch_size_sum += steps * batch_size
        if bucket == "prefill":
            self.prefill_chunks += 1

    def close(
        self, now_s: float, *, prompt_tokens: int, output_tokens: int, thinking_tokens: int = 0
    ) -> Ledger:
        """The finished account."""
        return Ledger(
            received_at_s=self.received_at_s,
            completed_at_s=self.completed_at_s,
            admitted_at_s=self.admitted_at_s,
            first_token_at_s=self.first_token_at_s,
            finished_at_s=now_s,
            queue_s=self.queue_s,
            kv_reload_s=self.kv_reload_s,
            prefill_s=self.prefill_s,
            decode_s=self.decode_s,
            constraint_s=self.constraint_s,
            prompt_tokens=prompt_tokens,
            cached_tokens=self.cached_tokens,
            recomputed_tokens=self.recomputed_tokens,
            prefill_chunks=self.prefill_chunks,
            output_tokens=output_tokens,
            forced_tokens=self.forced_tokens,
            steps=self.steps,
            batch_size_sum=self.batch_size_sum,
            preemptions=self.preemptions,
            cached_host_tokens=self.cached_host_tokens,
            thinking_tokens=thinking_tokens,
        )

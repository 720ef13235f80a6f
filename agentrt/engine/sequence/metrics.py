"""Metrics of one request: every instant between its arrival and its end is in one bucket."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from agentrt.protocol.step_output import DraftCount, DraftSource, Ledger

Bucket = Literal["hole", "queue", "prefill", "decode", "constraint"]


@dataclass(slots=True, eq=False)
class RequestMetrics:
    """Times and counts of an unfinished request; `to_ledger` gives the final ones.

    Attributes:
        received_at_s: Instant at which the engine got the request.
        recorded_until_s: Instant up to which all time is in a bucket.
        bucket_s: Seconds in each bucket.
        accepted_tokens: Draft tokens that were drawn as guessed, by source.
        rejected_tokens: Draft tokens computed in vain, by source; the sources of all drafts.
        expert_tokens: As in `Ledger`.
        expert_hits: Likewise.
        expert_misses: Likewise.
    """

    received_at_s: float
    recorded_until_s: float
    completed_at_s: float = 0.0
    admitted_at_s: float = 0.0
    first_token_at_s: float = 0.0
    kv_reload_s: float = 0.0
    bucket_s: dict[Bucket, float] = field(
        default_factory=lambda: dict.fromkeys(get_args(Bucket), 0.0)
    )
    ahead_tokens: int = 0
    cached_tokens: int = 0
    cached_host_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_chunks: int = 0
    forced_tokens: int = 0
    steps: int = 0
    batch_size_sum: int = 0
    preemptions: int = 0
    accepted_tokens: dict[DraftSource, int] = field(default_factory=dict)
    rejected_tokens: dict[DraftSource, int] = field(default_factory=dict)
    expert_tokens: tuple[tuple[int, ...], ...] = ()
    expert_hits: int = 0
    expert_misses: int = 0
    _unbooked_reload_s: float = 0.0

    def note_reload(self, tokens: int, seconds: float) -> None:
        """Note that KV was copied back from CPU memory; `start_running` records the time."""
        self.cached_host_tokens += tokens
        self._unbooked_reload_s += seconds

    def start_running(self, bucket: Bucket, now_s: float) -> None:
        """Record the wait until `now_s`, at which the sequence runs and its KV copies begin."""
        self.record_until(bucket, now_s)
        if self.admitted_at_s == 0.0:
            self.admitted_at_s = now_s
        self.kv_reload_s += self._unbooked_reload_s
        self.recorded_until_s += self._unbooked_reload_s
        self._unbooked_reload_s = 0.0

    def record_until(self, bucket: Bucket, now_s: float) -> None:
        """Add the time since the last record to `bucket`."""
        self.bucket_s[bucket] += now_s - self.recorded_until_s
        self.recorded_until_s = now_s

    def record_seconds(self, bucket: Bucket, seconds: float) -> None:
        """Add the first seconds since the last record to `bucket`."""
        self.bucket_s[bucket] += seconds
        self.recorded_until_s += seconds

    def record_step(
        self, bucket: Bucket, now_s: float, masks_s: float, batch_size: int, steps: int = 1
    ) -> None:
        """Record a step that it was part of, or several equal ones; masks took `masks_s` of it."""
        passed_s = now_s - self.recorded_until_s
        masks_s = min(masks_s, passed_s)
        self.bucket_s["constraint"] += masks_s
        self.bucket_s[bucket] += passed_s - masks_s
        self.recorded_until_s = now_s
        self.steps += steps
        self.batch_size_sum += steps * batch_size
        if bucket == "prefill":
            self.prefill_chunks += 1

    def add_expert_tokens(self, counts: tuple[tuple[int, ...], ...]) -> None:
        """Add tokens by layer and expert."""
        if self.expert_tokens:
            pairs = zip(self.expert_tokens, counts, strict=True)
            counts = tuple(tuple(map(sum, zip(*pair, strict=True))) for pair in pairs)
        self.expert_tokens = counts

    def to_ledger(
        self, now_s: float, *, prompt_tokens: int, output_tokens: int, thinking_tokens: int = 0
    ) -> Ledger:
        """The final metrics."""
        same: dict[str, Any] = {name: getattr(self, name) for name in _LEDGER_FIELDS}
        same |= {f"{bucket}_s": s for bucket, s in self.bucket_s.items() if bucket != "hole"}
        return Ledger(
            **same,
            finished_at_s=now_s,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            thinking_tokens=thinking_tokens,
            drafts=self._draft_counts() if self.rejected_tokens else (),
        )

    def _draft_counts(self) -> tuple[DraftCount, ...]:
        accepted = self.accepted_tokens
        return tuple(
            DraftCount(source, accepted.get(source, 0), rejected_tokens)
            for source, rejected_tokens in self.rejected_tokens.items()
        )


_LEDGER_FIELDS = {one.name for one in fields(Ledger)} & {one.name for one in fields(RequestMetrics)}
"""Fields with the same meaning in both."""

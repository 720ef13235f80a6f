"""Outcomes of simulated programs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from agentrt.protocol.step_output import Ledger

_LEDGER_SUMS = (
    *("queue_s", "kv_reload_s", "prefill_s", "decode_s"),
    *("prompt_tokens", "cached_tokens", "cached_host_tokens", "recomputed_tokens", "preemptions"),
)


@dataclass(slots=True)
class ProgramOutcome:
    """One program that ran.

    Attributes:
        name: Name of the trace.
        shape: Kind of program.
        tenant: Tenant that it runs for.
        submitted_at_s: When it was submitted.
        finished_at_s: When it had its result; 0.0 before.
        held_s: Sum over its generations of the wait for admission.
        queue_s: Sum of their waits in the engine's queue.
        hole_s: Sum of their waits for parts of their prompts.
        kv_reload_s: Sum of the time to bring their KV back.
        prefill_s: Sum of the time to compute their prompts.
        decode_s: Sum of the time to decode their tokens.
        tool_s: Sum of the time of its tools and pauses.
        first_s: Sum over its generations of the time from declaration to first token.
        rest_s: Sum over its generations of the time from first token to value.
        prompt_tokens: Prompt tokens of its generations.
        cached_tokens: Prompt tokens found in the cache.
        cached_host_tokens: Prompt tokens brought back from the offload tier.
        output_tokens: Output tokens of generations with a value.
        recomputed_tokens: Tokens computed again after a preemption.
        wasted_tokens: Output tokens of cancelled generations.
        preemptions: Number of times that a generation lost its pages.
        joined: Number of generations that joined the request of another one.
        kept_tokens: KV tokens that it computed, all of which a cache could keep.
        kept_token_s: Sum over these tokens of the time to the end of the program.
    """

    name: str
    shape: str
    tenant: str
    submitted_at_s: float
    finished_at_s: float = 0.0
    held_s: float = 0.0
    queue_s: float = 0.0
    hole_s: float = 0.0
    kv_reload_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    tool_s: float = 0.0
    first_s: float = 0.0
    rest_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cached_host_tokens: int = 0
    output_tokens: int = 0
    recomputed_tokens: int = 0
    wasted_tokens: int = 0
    preemptions: int = 0
    joined: int = 0
    kept_tokens: int = 0
    kept_token_s: float = 0.0

    @property
    def latency_s(self) -> float:
        """Compound latency: from the submission to the result."""
        return self.finished_at_s - self.submitted_at_s

    def end(self, at_s: float) -> None:
        """Note the end of the program."""
        self.finished_at_s = at_s
        self.kept_token_s += self.kept_tokens * at_s

    def answered(self, declared_at_s: float, first_token_at_s: float, at_s: float) -> None:
        """Note the value of a generation."""
        self.first_s += first_token_at_s - declared_at_s
        self.rest_s += at_s - first_token_at_s

    def book(self, ledger: Ledger, *, wanted: bool, joined: bool = False) -> None:
        """Add the ledger of a generation."""
        self.joined += joined
        for name in _LEDGER_SUMS:
            setattr(self, name, getattr(self, name) + getattr(ledger, name))
        self.hole_s += max(0.0, ledger.completed_at_s - ledger.received_at_s)
        new_tokens = ledger.prompt_tokens - ledger.cached_tokens + ledger.output_tokens
        self.kept_tokens += new_tokens
        self.kept_token_s -= new_tokens * ledger.finished_at_s
        if wanted:
            self.output_tokens += ledger.output_tokens
        else:
            self.wasted_tokens += ledger.output_tokens


@dataclass(slots=True)
class Totals:
    """Sums over all steps of one engine.

    Attributes:
        steps: Number of steps.
        busy_s: Seconds of the steps.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Tokens produced.
        kv_tokens: Tokens whose KV was read.
        unread_tokens: Prompt tokens of cancelled calls that were never computed.
        discarded_tokens: Tokens produced in the step in which their call was cancelled.
        saved_tokens: Tokens copied from the device to its host.
        loaded_tokens: Tokens copied back.
        copied_s: Seconds of these copies.
    """

    steps: int = 0
    busy_s: float = 0.0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    kv_tokens: int = 0
    unread_tokens: int = 0
    discarded_tokens: int = 0
    saved_tokens: int = 0
    loaded_tokens: int = 0
    copied_s: float = 0.0

    def since(self, before: Totals) -> Totals:
        """The difference to earlier sums."""
        names = [part.name for part in fields(Totals)]
        return Totals(**{name: getattr(self, name) - getattr(before, name) for name in names})


@dataclass(slots=True)
class SimulationOutcome:
    """All programs of one simulation, in the order of their arrival.

    Attributes:
        programs: Outcome of each program.
        engines: Sums over the steps of each engine.
        memory: Account of each engine's memory by name, if one is kept.
        ended_at_s: When the last program ended.
    """

    programs: list[ProgramOutcome] = field(default_factory=list)
    engines: list[Totals] = field(default_factory=list)
    memory: list[dict[str, float]] = field(default_factory=list)
    ended_at_s: float = 0.0

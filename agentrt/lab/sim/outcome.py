"""Outcomes of simulated programs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from agentrt.protocol.step_output import Ledger


@dataclass(slots=True)
class ProgramOutcome:
    """One program that ran.

    Attributes:
        name: Name of the trace.
        shape: Kind of program.
        tenant: Tenant that it runs for.
        submitted_at_s: When it was submitted.
        finished_at_s: When the result was there; 0.0 before.
        held_s: Sum over its generations of the wait for admission.
        queue_s: Sum of their waits in the engine's queue.
        hole_s: Sum of their waits for parts of their prompts.
        kv_reload_s: Sum of the time to bring their KV back.
        prefill_s: Sum of the time to compute their prompts.
        decode_s: Sum of the time to decode their tokens.
        tool_s: Sum of the time of its tools and pauses.
        first_s: From the declarations of its generations to their first tokens, all added up.
        rest_s: From there to their values.
        prompt_tokens: Prompt tokens of its generations.
        cached_tokens: Prompt tokens found in the cache.
        cached_host_tokens: Prompt tokens brought back from the offload tier.
        output_tokens: Output tokens of generations with a value.
        recomputed_tokens: Computed again after a preemption.
        wasted_tokens: Outputs that were given up.
        preemptions: How often a generation lost its pages.
        joined: How many of its generations another one's request was under way for.
        kept_tokens: KV that it computed and could have been kept for it.
        kept_token_s: The same, each token times the seconds from then to the program's end.
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
        """A generation has its value."""
        self.first_s += first_token_at_s - declared_at_s
        self.rest_s += at_s - first_token_at_s

    def book(self, ledger: Ledger, *, wanted: bool, joined: bool = False) -> None:
        """A generation of it is over."""
        self.joined += joined
        self.queue_s += ledger.queue_s
        self.kv_reload_s += ledger.kv_reload_s
        self.prefill_s += ledger.prefill_s
        self.decode_s += ledger.decode_s
        self.hole_s += max(0.0, ledger.completed_at_s - ledger.received_at_s)
        self.prompt_tokens += ledger.prompt_tokens
        self.cached_tokens += ledger.cached_tokens
        self.cached_host_tokens += ledger.cached_host_tokens
        self.recomputed_tokens += ledger.recomputed_tokens
        self.preemptions += ledger.preemptions
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
        steps: How many.
        busy_s: Seconds that they took.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Tokens produced.
        kv_tokens: Sum over steps of the tokens whose KV was read.
        unread_tokens: Prompt tokens of cancelled calls that were never computed.
        unheard_tokens: Produced in the step in which their call was given up.
        saved_tokens: Copied from the device to its host.
        loaded_tokens: Copied back.
        copied_s: Seconds that these copies took.
    """

    steps: int = 0
    busy_s: float = 0.0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    kv_tokens: int = 0
    unread_tokens: int = 0
    unheard_tokens: int = 0
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
        programs: One each.
        engines: Sums over the steps of each engine.
        ended_at_s: When the last program ended.
    """

    programs: list[ProgramOutcome] = field(default_factory=list)
    engines: list[Totals] = field(default_factory=list)
    ended_at_s: float = 0.0

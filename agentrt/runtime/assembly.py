"""Assembly of a loop: the parts that handle its events and carry out its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agentrt.base.clock import Clock
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.base.errors import AgentrtError
from agentrt.base.ids import RunId
from agentrt.runtime.effects import Effects
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.loop import Loop
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.observers import Observers
from agentrt.runtime.requests.cost_gate import CostGate
from agentrt.runtime.requests.dispatch import RequestDispatcher
from agentrt.runtime.requests.output_processor import OutputProcessor
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.runtime.requests.prompt_revision import PromptRevisions
from agentrt.runtime.requests.response_lookups import ResponseLookups
from agentrt.runtime.run import Run
from agentrt.runtime.tasks.prefill_ahead import PrefillAhead
from agentrt.runtime.tasks.runner import TaskRunner
from agentrt.runtime.tenant_usage import TenantUsages
from agentrt.scheduler import Estimates, InternalEvent, State
from agentrt.scheduler.estimates.patterns import Patterns

if TYPE_CHECKING:
    from agentrt.runtime.response_cache.cache import ResponseCache


def new_state(
    engines: Mapping[str, ModelRole],
    config: RunConfig,
    scheduler: SchedulerConfig,
    estimates: Estimates,
) -> State:
    """The state of a scheduler for some engines, which have started."""
    incomplete = [
        role
        for role, engine in engines.items()
        if engine.capabilities.holes
        and (engine.codec is not None or engine.capabilities.prompt == "messages")
    ]
    return State(
        incomplete_roles=incomplete,
        max_threads=config.max_concurrent_tools,
        config=scheduler,
        estimates=estimates,
        kv_tokens={
            role: (engine.capabilities.kv_tokens, engine.capabilities.host_kv_tokens)
            for role, engine in engines.items()
        },
    )


def assemble_loop(
    state: State,
    engines: Mapping[str, ModelRole],
    runs: Mapping[RunId, Run],
    observers: Observers,
    clock: Clock,
    *,
    config: RunConfig,
    scheduler: SchedulerConfig,
    patterns: Patterns,
    tenants: TenantUsages,
    responses: ResponseCache | None,
    post: Callable[[InternalEvent], None],
    on_end: Callable[[AgentrtError], None],
) -> tuple[Loop, TaskRunner]:
    """A loop over some engines, and what runs its tasks.

    Args:
        state: State of the scheduler.
        engines: Engines by role, which have started.
        runs: Runs by id, which change.
        observers: Observers of all events.
        clock: Clock of the runtime.
        config: Defaults for all runs.
        scheduler: How runs share the engines.
        patterns: Tool calls and prompts learned from past runs.
        tenants: Usage by tenant, which grows.
        responses: The response cache, or None.
        post: Leaves an event for the next batch of the loop.
        on_end: Called with the error after which the loop handles nothing more.
    """
    windows = ContextWindows()
    retention = KvRetention(engines, is_on=scheduler.retention)
    ahead = PrefillAhead(post, clock, engines, patterns.prompts, is_on=scheduler.prefill_ahead)
    revisions = PromptRevisions(post, windows)
    lookups = ResponseLookups(post, responses)
    dispatcher = RequestDispatcher(
        engines, revisions, windows, retention, scheduler, CostGate(post), lookups
    )
    tasks = TaskRunner(post, clock, config, patterns.calls, speculate=scheduler.speculate)
    effects = Effects(runs, dispatcher, tasks, retention, ahead)
    outputs = OutputProcessor(dispatcher, retention, post, tenants)
    return Loop(state, effects, outputs, observers, clock, on_end, retention, ahead), tasks

"""Completion of nodes: the node gets its value or its error, and an event reports the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from agentrt.base.errors import AgentrtError, ErrorRecord, NodeCancelled, ToolFailed, record_of
from agentrt.base.ids import NodeId
from agentrt.base.server_attributes import server_attributes
from agentrt.program import Node
from agentrt.program.call_site import raised_at
from agentrt.program.node import fail, succeed
from agentrt.protocol.events import AttributeValue, Event, NodeFinished, Outcome, PromptRevised
from agentrt.protocol.step_output import ConstraintUse, End
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task, TaskEnd
from agentrt.scheduler import InternalEvent, internal_events


def succeeded(run: Run, node: Node[Any], value: Any, end: End | None = None) -> NodeFinished:
    """Give a node its value, and make the event of its end."""
    succeed(node, value)
    return _event(run, node, "ok", None, end)


def failed(run: Run, node: Node[Any], error: Exception, end: End | None = None) -> NodeFinished:
    """Give a node its error, and make the event of its end; dependents get the same error."""
    if isinstance(error, AgentrtError) and not error.where:
        raised = raised_at(error) if node.kind == "program" else ""
        error.where = raised or node.site
    note = f"in node {node.label}"
    notes = getattr(error, "__notes__", [])
    if not any(known.startswith("in node ") for known in notes):
        error.add_note(f"{note} ({node.site})")
    elif node.kind == "program" and not notes[-1].startswith(note):  # a recursion is told once
        error.add_note(note)
    for unknown in run.unknown_outcomes if node is run.root else ():
        error.add_note(unknown)
    fail(node, error)
    outcome: Outcome = "cancelled" if isinstance(error, NodeCancelled) else "failed"
    return _event(run, node, outcome, error, end)


def error_record(error: BaseException) -> ErrorRecord:
    """The error as data; its place is the innermost line of the user's code, if it names none."""
    record = record_of(error)
    return record if record.where else replace(record, where=raised_at(error))


async def carry_out(
    run: Run,
    node: Node[Any],
    task: Task,
    body: Callable[[], Awaitable[Any]],
    ended: Callable[[Any], Event],
    post: Callable[[InternalEvent], None],
    reached: End | None = None,
) -> None:
    """Run what a node needs done, and post its failure, or the event of its end.

    Args:
        run: Run of the node.
        node: The node.
        task: Task of the node.
        body: The work.
        ended: Makes the event of the value that the work gave.
        post: Leaves an event for the loop.
        reached: How its request has ended, if it has.
    """
    end: TaskEnd | None = None
    task.leave = partial(_leave, run, node, task, post, reached)
    try:
        end = await run.attempt(node, task, body)
    finally:
        task.close()
        run.tasks.pop(node.id, None)
        end = end or TaskEnd(error=_torn_down(node))
        if not node.done:  # else the loop has ended, and every node with it
            error = end.error
            if isinstance(error, ToolFailed) and _is_cut_off(run, node):
                error = _cut_off(node, error)
            event = ended(end.value) if error is None else failed(run, node, error, reached)
            if task.stop_error is not None and isinstance(event, PromptRevised):
                event = failed(run, node, task.stop_error, reached)  # it was too late to cancel
            post(event)


def _is_cut_off(run: Run, node: Node[Any]) -> bool:
    """Whether a program around the node is being cancelled, by its deadline for example."""
    path = node.id
    while "/" in path:
        path = NodeId(path.rpartition("/")[0])
        task = run.tasks.get(path)
        if task is not None and task.scope.cancel_called:
            return True
    return False


def _cut_off(node: Node[Any], error: ToolFailed) -> NodeCancelled:
    """The error of a tool that failed since its program had begun to close what it works with."""
    cancelled = NodeCancelled(f"{node.label} was cut off", reason="its program was cut off")
    cancelled.__cause__ = error
    return cancelled


def _leave(
    run: Run,
    node: Node[Any],
    task: Task,
    post: Callable[[InternalEvent], None],
    reached: End | None,
) -> bool:
    """End a node whose code does not end; false as long as nodes that the code has made go on."""
    inside = [one for one in run.nodes if one.startswith(f"{node.id}/")]
    if inside and node.id not in run.stuck:
        for one in inside:
            reason = "its program does not end"
            post(internal_events.CancelRequested(run.run_id, NodeId(one), reason))
    had_ended = run.stuck.get(node.id, True)
    run.stuck[node.id] = not inside
    if inside or not had_ended:  # the code has just got their ends
        return False
    run.tasks.pop(node.id, None)
    if not node.done:
        post(failed(run, node, run.stop_error(node, task), reached))
    run.task_set.leave(node.id)
    return True


def constraint_attributes(use: ConstraintUse) -> dict[str, AttributeValue]:
    """How a remote engine was given a constraint, and what of the output no model wrote."""
    found: dict[str, AttributeValue] = {
        "agentrt.constraint.form": use.form,
        "agentrt.constraint.enforced": use.enforced,
    }
    if use.dropped:
        found["agentrt.constraint.checked_keywords"] = use.dropped
    if use.closing_characters:
        found["agentrt.closing.characters"] = use.closing_characters
    return found


def _torn_down(node: Node[Any]) -> NodeCancelled:
    """The error of a node after its task was cancelled from outside."""
    return NodeCancelled(f"{node.label} was torn down", reason="torn down")


def _event(
    run: Run, node: Node[Any], outcome: Outcome, error: Exception | None, end: End | None
) -> NodeFinished:
    waited, stop = run.forget(node.id)
    finish_reason = "" if end is None else end.reason
    attributes: dict[str, AttributeValue] = {}
    if run.content is not None:
        attributes = run.content.tell(run.run_id, node, finish_reason)
    if end is not None:
        if end.constraint is not None:
            attributes |= constraint_attributes(end.constraint)
        if end.prompt:
            attributes["agentrt.prompt.form"] = end.prompt
        if end.not_sent:
            attributes["agentrt.sampling.not_sent"] = end.not_sent
        if end.not_warmed:
            attributes["agentrt.prefill.not_warmed"] = end.not_warmed
        if end.server:
            attributes |= server_attributes(end.server)
        if end.provider:
            attributes["gen_ai.provider.name"] = end.provider
        if end.answer_id:
            attributes["gen_ai.response.id"] = end.answer_id
        if end.model:
            attributes["gen_ai.response.model"] = end.model
    after, after_item = (waited.node_id, waited.item) if waited is not None else (None, None)
    if stop is not None:
        after, after_item = stop.after, stop.after_item
    return NodeFinished(
        run.run_id,
        node.id,
        outcome,
        run.now_s(),
        error.reason if isinstance(error, NodeCancelled) else "",
        error_record(error) if error is not None and outcome == "failed" else None,
        None if end is None else end.ledger,
        outcome == "ok" and end is not None and end.closed_early,
        finish_reason,
        attributes,
        after,
        after_item,
        None if stop is None else stop.at_s,
    )  # by position: keywords would take twice as long

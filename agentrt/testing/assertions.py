"""Assertions on runs: critical path, latency, tokens, cost, prompts and tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from difflib import SequenceMatcher, ndiff
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from agentrt.analysis.causes import Causes
from agentrt.analysis.replay import saving_s
from agentrt.analysis.stages import stages
from agentrt.base.canonical_json import dumps
from agentrt.testing.played_run import PlayedRun, PlayedToolCall, path_nodes
from agentrt.testing.script import Call

if TYPE_CHECKING:
    from agentrt.analysis.critical_path import PathStep
    from agentrt.base.money import Amount


def assert_critical_path(run: PlayedRun, names: Sequence[str]) -> None:
    """Check which nodes determined the latency of a run, in order.

    Example:
        >>> from agentrt import chat, program
        >>> from agentrt.testing import Reply, ScriptedRuntime, assert_critical_path
        >>> @program
        ... async def twice() -> str:
        ...     first = chat().user("Draft.").generate(name="draft")
        ...     return await first.ctx.user("Shorter.").generate(name="final")
        >>> run = ScriptedRuntime(["A", "B"]).run(twice)
        >>> assert_critical_path(run, ["draft", "final"])

    Args:
        run: A run.
        names: Names of nodes, or patterns such as `s*`; programs are left out.

    Raises:
        AssertionError: The path is another one; the message shows both.
    """
    __tracebackhide__ = True
    found = path_nodes(run)
    actual = [name for name, _ in found]
    if len(actual) == len(names) and all(map(fnmatchcase, actual, names)):
        return
    matched = list(names)
    for at, name in enumerate(actual[: len(names)]):
        matched[at] = name if fnmatchcase(name, names[at]) else names[at]
    width = max([4, *(len(name) for name in (*actual, *names))])
    lines = ["the critical path is another one (- expected, + actual):"]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, matched, actual).get_opcodes():
        if tag != "equal":
            lines += [f"  - {name}" for name in names[i1:i2]]
        sign = "+" if tag != "equal" else " "
        lines += [f"  {sign} {name:<{width}}  {_seconds(steps)}" for name, steps in found[j1:j2]]
    lines.append(_split_line(run))
    raise AssertionError("\n".join(lines))


def assert_compound_under(run: PlayedRun, limit_s: float) -> None:
    """Check that a run took less than `limit_s` seconds, from submit to result.

    Raises:
        AssertionError: The run took longer; the message shows where the time went.
    """
    __tracebackhide__ = True
    if run.compound_s < limit_s:
        return
    lines = [
        f"compound latency {run.compound_s:.3f} s is not under {limit_s:g} s",
        _split_line(run),
        "critical path:",
        *_path_lines(run),
    ]
    saving = _largest_saving(run)
    if saving:
        lines.append(saving)
    raise AssertionError("\n".join(lines))


def assert_tokens_under(run: PlayedRun, limit_tokens: int) -> None:
    """Check that the prompts and answers of a run have fewer than `limit_tokens` tokens.

    Raises:
        AssertionError: They have more; the message has one line a generation, the largest first.
    """
    __tracebackhide__ = True
    if run.tokens < limit_tokens:
        return
    sizes = [
        (one.ledger.prompt_tokens, one.ledger.output_tokens, one.node_id) for one in run.generations
    ]
    sizes.sort(key=lambda one: -(one[0] + one[1]))
    lines = [f"  {ins:>7,} in {outs:>7,} out  {node_id}" for ins, outs, node_id in sizes]
    raise AssertionError(
        "\n".join([f"{run.tokens:,} tokens are not under {limit_tokens:,}:", *lines])
    )


def assert_cost_under(run: PlayedRun, limit: Amount) -> None:
    """Check that a run cost less than `limit`, in the currency of the engine's prices.

    Raises:
        AssertionError: The run cost more, or the engines have no prices.
    """
    __tracebackhide__ = True
    if run.cost is None:
        raise AssertionError("the engines have no prices: give prices=Prices.of(...)")
    if run.cost < Decimal(str(limit)):
        return
    sizes = sorted(run.generations, key=lambda one: -one.ledger.cost_pico)
    lines = [f"  {one.ledger.cost}  {one.node_id}" for one in sizes]
    raise AssertionError("\n".join([f"{run.usage.money()} is not under {limit}:", *lines]))


def assert_prompt_contains(run: PlayedRun, name: str, *texts: str) -> None:
    """Check that the prompt of the generation `name` holds each of `texts`.

    Raises:
        AssertionError: A text is missing; the message has the prompt.
        LookupError: No generation is called that, or more than one.
    """
    __tracebackhide__ = True
    prompt = run.generation(name).prompt
    missing = [text for text in texts if text not in prompt]
    if missing:
        what = ", ".join(map(repr, missing))
        raise AssertionError(f"the prompt of {name!r} lacks {what}:\n{prompt}")


def assert_tool_calls(
    run: PlayedRun, calls: Sequence[Call | str], *, in_order: bool = True
) -> None:
    """Check which tools a run called, with which arguments.

    Example:
        >>> from agentrt import chat, program, tool
        >>> from agentrt.testing import ScriptedRuntime, assert_tool_calls, call
        >>> @tool(effects="read")
        ... def price(symbol: str) -> float:
        ...     return 12.5
        >>> @program
        ... async def worth(symbol: str) -> list[float]:
        ...     plan = chat().user("What is it worth? ", symbol).calls(price)
        ...     return [await one.start() async for one in plan]
        >>> run = ScriptedRuntime([call("price", symbol="IBM")]).run(worth, "IBM")
        >>> assert_tool_calls(run, [call("price", symbol="IBM")])

    Args:
        run: A run.
        calls: Calls as `call(name, ...)`, or names of tools if the arguments do not matter.
        in_order: Whether they have to be in the order in which they were made.

    Raises:
        AssertionError: The run called others; the message shows both.
    """
    __tracebackhide__ = True
    made = list(run.tool_calls)
    left, wanted = list(made), list(calls)
    is_met = len(made) == len(wanted)
    if in_order:
        is_met = is_met and all(map(_is_call, made, wanted))
    else:
        for one in wanted:
            found = next((call for call in left if _is_call(call, one)), None)
            if found is None:
                is_met = False
                break
            left.remove(found)
    if is_met:
        return
    expected = [_shown(one) for one in wanted]
    names_only = {one for one in wanted if isinstance(one, str)}
    actual = [one.name if one.name in names_only else _shown_made(one) for one in made]
    if not in_order:
        expected, actual = sorted(expected), sorted(actual)
    lines = [f"  {line.rstrip()}" for line in ndiff(expected, actual) if line[0] != "?"]
    raise AssertionError("\n".join(["the tool calls differ (- expected, + actual):", *lines]))


def _is_call(made: PlayedToolCall, wanted: Call | str) -> bool:
    if isinstance(wanted, str):
        return made.name == wanted
    return made.name == wanted.name and dumps(made.arguments) == dumps(dict(wanted.arguments))


def _shown(wanted: Call | str) -> str:
    return wanted if isinstance(wanted, str) else _call_text(wanted.name, dict(wanted.arguments))


def _shown_made(made: PlayedToolCall) -> str:
    return _call_text(made.name, made.arguments)


def _call_text(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={dumps(one)}' for key, one in arguments.items())})"


def _split_line(run: PlayedRun) -> str:
    parts = {label: one for label, one in run.split.parts().items() if one > 5e-4}
    shown = " + ".join(f"{label} {one:.3f}" for label, one in parts.items())
    return f"  compound {run.compound_s:.3f} s = {shown or 'nothing'}"


def _path_lines(run: PlayedRun) -> list[str]:
    found = path_nodes(run)
    width = max([4, *(len(name) for name, _ in found)])
    lines = [
        f"  {name:<{width}}  {_seconds(steps)}  {_parts(run, steps)}".rstrip()
        for name, steps in found
    ]
    code_s = run.compound_s - sum(step.length_s for _, steps in found for step in steps)
    if code_s > 5e-4:
        lines.append(f"  {'code':<{width}}  {code_s:7.3f} s  of the programs themselves")
    return lines


def _parts(run: PlayedRun, steps: list[PathStep]) -> str:
    """Seconds of a node on the path by cause, and its line in the program."""
    causes, node = Causes(run.record), run.record.nodes[steps[0].node_id]
    sums: dict[str, float] = {}
    for step in steps:
        for stage in stages(run.record, node, causes):
            for label, one in stage.within(step.started_at_s, step.ended_at_s):
                sums[label] = sums.get(label, 0.0) + one
    shown = " + ".join(f"{label} {one:.3f}" for label, one in sums.items() if one > 5e-4)
    return f"{shown:<32}  {node.declared.site}"


def _largest_saving(run: PlayedRun) -> str:
    causes, nodes = Causes(run.record), {step.node_id for step in run.path}
    leaves = [one for one in run.record.leaves() if one.node_id in nodes]
    if not leaves:
        return ""
    best = max(leaves, key=lambda one: saving_s(run.record, one.node_id, causes))
    saved_s = saving_s(run.record, best.node_id, causes)
    return f"without {best.name} it would take {run.compound_s - saved_s:.3f} s"


def _seconds(steps: list[PathStep]) -> str:
    return f"{sum(step.length_s for step in steps):7.3f} s"

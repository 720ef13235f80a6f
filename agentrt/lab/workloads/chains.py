"""Shapes in which each generation goes on from the one before."""

from __future__ import annotations

from agentrt.lab.workloads.sketch import Sketch, assistant, system, user
from agentrt.lab.workloads.trace import Message, ProgramTrace


def react(sketch: Sketch) -> ProgramTrace:
    """A user's turns; in each the model calls tools, one after the other, then answers."""
    chat: list[Message] = [system(sketch.shared("system"))]
    steps = 0
    for turn in range(sketch.many("turns", 1)):
        chat.append(user(sketch.own("question", turn)))
        for _ in range(int(sketch.draw("tools_a_turn"))):
            _act(sketch, chat, steps, sketch.draw("forced_share"))
            steps += 1
        chat.append(assistant(sketch.call(f"answer{turn}", chat, "output", site="answer")))
    return sketch.trace([f"answer{turn}"])


def coding_agent(sketch: Sketch) -> ProgramTrace:
    """A long chain of one generation and one tool each, over a context that grows."""
    chat: list[Message] = [system(sketch.shared("system")), user(sketch.own("task"))]
    for step in range(sketch.many("turns") - 1):
        _act(sketch, chat, step)
    sketch.call("report", chat, "output")
    return sketch.trace(["report"])


def chat(sketch: Sketch) -> ProgramTrace:
    """A person's turns, with pauses between them."""
    messages: list[Message] = [system(sketch.shared("system")), user(sketch.own("first"))]
    pause: tuple[str, ...] = ()
    for turn in range(sketch.many("turns")):
        if turn:
            if sketch.scale.think:
                pause = (sketch.think(f"pause{turn}", f"answer{turn - 1}"),)
            messages.append(user(sketch.own("next", turn)))
        said = sketch.call(f"answer{turn}", messages, "output", site="answer", after=pause)
        messages.append(assistant(said))
    return sketch.trace([f"answer{turn}"])


def extraction(sketch: Sketch) -> ProgramTrace:
    """One call; a grammar forces parts of its output."""
    prompt = [system(sketch.shared("schema")), user(sketch.own("text"))]
    sketch.call("extract", prompt, "output", forced_share=sketch.draw("forced_share"))
    return sketch.trace(["extract"])


def finance(sketch: Sketch) -> ProgramTrace:
    """A plan, tools that start one after the other while it is written, and a report."""
    chat: list[Message] = [system(sketch.shared("system")), user(sketch.own("question"))]
    plan = sketch.call("plan", chat, "plan", forced_share=sketch.draw("plan_forced"))
    chat.append(assistant(plan))
    tools = sketch.many("tools")
    shares = ((at + 1) / tools for at in range(tools))
    results = [sketch.tool(f"tool{at}", "plan", share) for at, share in enumerate(shares)]
    chat.append(user(*results))
    sketch.call("report", chat, "report", forced_share=sketch.draw("report_forced"))
    return sketch.trace(["report"])


def _act(sketch: Sketch, chat: list[Message], step: int, forced_share: float = 0.0) -> None:
    """One generation that calls a tool, and what the tool answers."""
    act = sketch.call(f"act{step}", chat, "output", site="act", forced_share=forced_share)
    chat.append(assistant(act))
    chat.append(user(sketch.tool(f"tool{step}", f"act{step}")))

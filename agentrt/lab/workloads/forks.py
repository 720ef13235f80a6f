"""Shapes in which several generations continue one prompt, or several meet in one."""

from __future__ import annotations

from agentrt.lab.workloads.sketch import Sketch, assistant, system, user
from agentrt.lab.workloads.trace import Message, ProgramTrace

_TASKS = 27
"""Tasks of BIG-Bench Hard, each with examples of its own."""
_AGENTS = 3


def self_consistency(sketch: Sketch) -> ProgramTrace:
    """Samples of one prompt; a majority that has ended is enough."""
    prompt = [system(sketch.shared("examples")), user(sketch.own("question"))]
    names = tuple(f"sample{at}" for at in range(sketch.many("samples", 3)))
    for name in names:
        sketch.call(name, prompt, "answer", site="sample")
    return sketch.trace([], quorum=(names, len(names) // 2 + 1))


def skeleton(sketch: Sketch) -> ProgramTrace:
    """An outline, then each of its points at once."""
    points = sketch.many("points")
    question = sketch.own("question")
    prompt = [system(sketch.shared("outline")), user(question)]
    outline = sketch.call("outline", prompt, points * sketch.draw("heading"))
    ask = system(sketch.shared("expand"))
    names = [f"point{at}" for at in range(points)]
    for at, name in enumerate(names):
        which = sketch.own("heading", at)  # which point to write, at the end
        sketch.call(name, [ask, user(question, outline, which)], "point", site="point")
    return sketch.trace(names)


def map_reduce(sketch: Sketch) -> ProgramTrace:
    """A summary of each part, then one of the summaries."""
    ask = system(sketch.shared("instruction"))
    outputs = [
        sketch.call(f"map{at}", [ask, user(sketch.own("part", at))], "summary", site="map")
        for at in range(sketch.many("parts"))
    ]
    merge = sketch.shared("instruction", "/reduce")
    sketch.call("reduce", [system(merge), user(*outputs)], "summary")
    return sketch.trace(["reduce"])


def judge(sketch: Sketch) -> ProgramTrace:
    """Opinions on one article by several criteria, then their merge."""
    ask, article = system(sketch.shared("instruction")), sketch.own("article")
    outputs = [
        sketch.call(
            f"opinion{at}",
            [ask, user(article, sketch.shared("criterion", f"/{at}"))],
            "opinion",
            site="opinion",
        )
        for at in range(sketch.many("criteria"))
    ]
    merge = sketch.shared("criterion", "/merge")
    sketch.call("verdict", [ask, user(article, *outputs, merge)], "opinion")
    return sketch.trace(["verdict"])


def debate(sketch: Sketch) -> ProgramTrace:
    """Agents that answer, read each other, and answer again."""
    question = sketch.own("question")
    chats: list[list[Message]] = [
        [system(sketch.shared("persona", f"/{agent}")), user(question)] for agent in range(_AGENTS)
    ]
    names: list[str] = []
    for turn in range(sketch.many("rounds")):
        names = [f"agent{agent}_round{turn}" for agent in range(_AGENTS)]
        said = [
            sketch.call(name, chat, "argument", site=f"round{turn}")
            for name, chat in zip(names, chats, strict=True)
        ]
        for agent, chat in enumerate(chats):
            others = (output for at, output in enumerate(said) if at != agent)
            chat += [assistant(said[agent]), user(*others, sketch.shared("urge"))]
    return sketch.trace(names)


def classification(sketch: Sketch) -> ProgramTrace:
    """Many inputs behind the same examples, each on its own."""
    examples = system(sketch.shared("examples", f"/{sketch.random.randrange(_TASKS)}"))
    names = [f"input{at}" for at in range(sketch.many("inputs"))]
    for at, name in enumerate(names):
        prompt = [examples, user(sketch.own("question", at))]
        sketch.call(name, prompt, "output", site="classify")
    return sketch.trace(names)

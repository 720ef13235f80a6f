"""Sizes of the twelve shapes: one line a quantity, in tokens, seconds or counts.

Medians and percentiles are those of public data (named beside each group) or of the papers that
describe the shape. `data` replaces lines of this table by samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from agentrt.lab.workloads.draw import (
    Between,
    Distribution,
    Fixed,
    ObservedDistribution,
    Skewed,
    Tailed,
)

Sizes: TypeAlias = Mapping[str, Distribution]

# Of 7,774 tool calls of two coding agents 64 % took under 0.1 s, 74 % under 2 s, and the longest
# tenth took 56 % of the time: a body of 74 % around 0.05 s, a tail from 2 s with that share.
AGENT_TOOL = Tailed(Skewed(0.05, 0.112), tail_share=0.26, tail_from=2.0, alpha=2.43, high=60.0)

SIZES: Sizes = {
    # ReAct loop: BFCL multi-turn tasks; prompts and outputs a call as Autellix measured them.
    "react.system": Fixed(430),
    "react.turns": Skewed(3.7, 5, 1, 8),
    "react.tools_a_turn": ObservedDistribution((1, 1, 1, 1, 1, 2, 2, 2, 3, 3)),
    "react.question": Skewed(30, 60, 8, 120),
    "react.output": Skewed(28, 60, 8, 160),
    "react.forced_share": Between(0.25, 0.5),  # of a tool call, with the programs of this package
    "react.result": Skewed(25, 60, 6, 200),
    "react.tool_s": AGENT_TOOL,
    # Self-consistency: GSM8K questions and answers behind eight examples.
    "self-consistency.examples": Fixed(900),
    "self-consistency.question": Skewed(57, 92, 15, 200),
    "self-consistency.answer": Skewed(66, 120, 15, 190),
    "self-consistency.samples": ObservedDistribution((8, 8, 16, 16, 40)),
    # Tree of thought: the game of 24, beam of five over three levels, three values a candidate.
    "tree-of-thought.propose": Fixed(260),
    "tree-of-thought.value": Fixed(180),
    "tree-of-thought.state": Fixed(12),
    "tree-of-thought.first": Skewed(9.5, 11, 8, 12),
    "tree-of-thought.second": Skewed(32, 38, 25, 40),
    "tree-of-thought.third": Skewed(20, 25, 15, 30),
    "tree-of-thought.candidate": Fixed(18),
    "tree-of-thought.judgement": Between(15, 30),
    # Skeleton of thought: vicuna questions.
    "skeleton.outline": Fixed(180),
    "skeleton.question": Skewed(12, 30, 6, 60),
    "skeleton.expand": Fixed(40),
    "skeleton.points": Between(3, 10),
    "skeleton.heading": Fixed(7),
    "skeleton.point": Between(60, 150),
    # Map-reduce summary: lengths of the summaries that Vidur's traces hold.
    "map-reduce.instruction": Fixed(80),
    "map-reduce.part": Skewed(2_450, 3_700, 400, 4_000),
    "map-reduce.summary": Skewed(167, 650, 30, 900),
    "map-reduce.parts": Between(6, 16),
    # Judge: branches on the criteria of one answer, then a merge.
    "judge.instruction": Fixed(150),
    "judge.article": Between(1_000, 4_000),
    "judge.criterion": Fixed(40),
    "judge.criteria": Between(2, 5),
    "judge.opinion": Between(30, 150),
    # Chat: the conversations of Azure's trace; people pause as those of agents' sessions do.
    "chat.system": Fixed(200),
    "chat.first": Skewed(820, 2_500, 40, 4_000),
    "chat.next": Skewed(60, 300, 8, 1_000),
    "chat.output": Skewed(129, 424, 10, 1_000),
    "chat.turns": Skewed(3, 6, 2, 8),
    "chat.think_s": Skewed(127, 600, 5, 1_800),
    # Extraction: one constrained call.
    "extraction.schema": Fixed(200),
    "extraction.text": Between(300, 1_800),
    "extraction.output": Between(50, 400),
    "extraction.forced_share": Between(0.2, 0.6),
    # Finance: a plan, its tools while it is being written, a report.
    "finance.system": Fixed(500),
    "finance.question": Skewed(40, 80, 10, 160),
    "finance.plan": Fixed(180),
    "finance.plan_forced": Between(0.4, 0.5),  # as the program of this name has it
    "finance.report_forced": Between(0.12, 0.2),
    "finance.tools": Between(3, 8),
    "finance.tool_s": Skewed(0.9, 2.4, 0.3, 3.0),
    "finance.result": Skewed(110, 300, 20, 800),
    "finance.report": Fixed(400),
    # Debate: three agents, each reads the others.
    "debate.question": Skewed(60, 120, 20, 300),
    "debate.persona": Fixed(60),
    "debate.urge": Fixed(40),
    "debate.rounds": ObservedDistribution((2, 3)),
    "debate.argument": Between(100, 300),
    # Coding agent: sessions of agents with the context divided by eight, as fits one device.
    "coding-agent.system": Fixed(2_000),
    "coding-agent.task": Skewed(600, 4_000, 100, 6_000),
    "coding-agent.turns": Skewed(45, 155, 8, 90),
    "coding-agent.result": Skewed(61, 480, 4, 1_000),
    "coding-agent.output": Skewed(27, 112, 4, 300),
    "coding-agent.tool_s": AGENT_TOOL,
    # Classification: the tasks of BIG-Bench Hard, a prompt of examples each.
    "classification.examples": Skewed(640, 900, 436, 1_023),
    "classification.question": Skewed(58, 130, 10, 306),
    "classification.output": Skewed(20, 120, 1, 200),
    "classification.inputs": Between(8, 24),
}

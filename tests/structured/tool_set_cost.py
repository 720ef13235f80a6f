"""Cost of a changed tool: `python tests/structured/tool_set_cost.py [vocabulary] [tools...]`.

A set of tools is declared and compiled, then again and again with one schema changed. Printed are
milliseconds of CPU time, the median and the worst of several changes, so that a busy machine
changes little: `declare` and `ask` are spent by a caller, which may be an event loop, `compile` by
the threads of the engine until the set is ready. The default is 512 tools of the vocabulary 128k.
"""

import json
import statistics
import sys
import time
from typing import Any

from agentrt.base.segments import JSON_ARRAY_FRAME, ToolSchema
from agentrt.lab.bench.structured.vocabularies import vocabulary_named
from agentrt.structured import CompileCache, calls_spec

CHANGES = 9
WARM_UP = 16


def tool(number: int, limit: int = 99) -> ToolSchema:
    properties = {
        "path": {"type": "string"},
        "count": {"type": "integer", "minimum": 0, "maximum": limit},
        "mode": {"enum": ["read", "write"]},
    }
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    return ToolSchema(f"tool_{number}", "Does its work.", schema)


def measure(vocabulary: str, count: int) -> dict[str, Any]:
    vocab, cache = vocabulary_named(vocabulary), CompileCache()
    tools = [tool(number) for number in range(count)]
    costs: dict[str, list[float]] = {"declare": [], "ask": [], "compile": []}
    for change in range(WARM_UP + CHANGES):  # the caller reads a few schemas each time
        tools[change % count] = tool(change % count, 100 + change)
        began_s, all_began_s = time.thread_time(), time.process_time()
        spec = calls_spec(tools, checks_tools=False)
        declared_s = time.thread_time()
        future = cache.start_compile(spec, vocab, JSON_ARRAY_FRAME)
        asked_s = time.thread_time()
        future.result()
        ready_s = time.process_time() - all_began_s
        if change >= WARM_UP:
            costs["declare"].append((declared_s - began_s) * 1e3)
            costs["ask"].append((asked_s - declared_s) * 1e3)
            costs["compile"].append((ready_s - (asked_s - began_s)) * 1e3)
    cache.close()
    return {
        name: {"median": round(statistics.median(found), 2), "worst": round(max(found), 2)}
        for name, found in costs.items()
    }


if __name__ == "__main__":
    name, *counts = sys.argv[1:] or ["128k"]
    for count in map(int, counts or ["512"]):
        print(json.dumps({"vocabulary": name, "tools": count, "ms": measure(name, count)}))

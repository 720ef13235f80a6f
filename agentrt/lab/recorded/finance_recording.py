"""Recordings of the finance program, made of the spans of its runs on the embedded model.

To record anew: `agentrt run programs/finance.py --batch QUESTIONS --concurrency 1 --trace
file=FOLDER` with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, then
`python -m agentrt.lab.recorded.finance_recording FOLDER`. The questions are those of
`examples/embedded_model/held_out/unseen.jsonl` that ask for two figures and more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).with_name("finance.jsonl")
Json = dict[str, Any]


def row_of(trace: Json) -> Json:
    """A row of the recording: the prompt, the plan's calls with their results, and the report.

    Args:
        trace: A file of spans as `agentrt run` writes it.

    Raises:
        KeyError: The trace is not one of the finance program, or holds no content.
    """
    spans = [_tags(span) for span in trace["data"][0]["spans"]]
    chats = {one["agentrt.node.name"]: one for one in spans if "gen_ai.input.messages" in one}
    asked, planned, *answered = json.loads(chats["report"]["gen_ai.input.messages"])
    tools = json.loads(chats["plan"]["gen_ai.tool.definitions"])
    calls = [{name: part[name] for name in ("name", "arguments")} for part in planned["parts"]]
    results = [part["response"] for message in answered if message["role"] == "tool"
               for part in message["parts"]]  # fmt: skip
    (report,) = json.loads(chats["report"]["gen_ai.output.messages"])
    return {
        "tools": {one["name"]: list(one["parameters"]["properties"]) for one in tools},
        "definitions": json.dumps(tools, separators=(",", ":")),
        "asked": "".join(part["content"] for part in asked["parts"]),
        "calls": calls,
        "results": results,
        "report": report["parts"][0]["content"],
    }


def record(folder: Path) -> None:
    """Write the recording of all traces of a folder; what all rows share stands in the first."""
    rows = [row_of(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))]
    rows = [row for row in rows if row["calls"] and row["results"]]
    shared = {name: rows[0][name] for name in ("tools", "definitions")}
    own = [{name: row[name] for name in row if name not in shared} for row in rows]
    lines = (json.dumps(one, ensure_ascii=False) for one in (shared, *own))
    RECORDING.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _tags(span: Json) -> Json:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


if __name__ == "__main__":
    record(Path(sys.argv[1]))

"""A small wheel of the form of the recorded one: one task of three turns, and one of two."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

FOLDER = "made/data/replays"
SYSTEM = {"role": "system", "content": "You keep a garden. Call one tool at a time."}
TOOL = {
    "type": "function",
    "function": {
        "name": "water",
        "description": "Water a bed.",
        "parameters": {
            "type": "object",
            "properties": {"bed": {"type": "string"}},
            "required": ["bed"],
        },
    },
}


def called(number: int) -> list[dict[str, Any]]:
    """An answer with a call, as some harnesses write it, and its result."""
    function = {"name": "water", "arguments": json.dumps({"bed": f"bed {number}"})}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"bed {number} is wet"},
    ]


def row(task: str, number: int, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "turn_id": f"{task}:{number:04}",
        "task_id": task,
        "conversation_id": task,
        "conversation_idx": number,
        "messages": messages,
        "tools": [TOOL],
        "target_output_tokens": 6 + number,
        "simulated_tool_delay_ms_after": 20.0,
        "recorded_tool_calls_after": [{"duration_ms": 20.0, "tool_name": "water"}],
        **fields,
    }


def growing() -> list[dict[str, Any]]:
    """A task whose prompts extend each other; its last turn has no tools."""
    messages = [SYSTEM, {"role": "user", "content": "Water the first two beds."}]
    rows = []
    for number in range(3):
        last = number == 2
        later: dict[str, Any] = {"tools": [], "recorded_tool_calls_after": []} if last else {}
        rows.append(row("garden", number, list(messages), recorded_prompt_tokens=9, **later))
        messages += called(number)
    return rows


def drifting() -> list[dict[str, Any]]:
    """A task whose harness ends each prompt with a counter that it takes back."""
    begin = [SYSTEM, {"role": "user", "content": "Water the last bed."}]
    first = [*begin, {"role": "user", "content": "Call 1 of 9"}]
    second = [*begin, *called(7), {"role": "user", "content": "Call 2 of 9"}]
    return [row("drift", 0, first), row("drift", 1, second)]


def made_wheel(path: Path, tasks: dict[str, list[dict[str, Any]]] | None = None) -> Path:
    """Write the wheel."""
    tasks = tasks or {"garden": growing(), "drift": drifting()}
    manifest = {
        "version": 1,
        "name": "Made",
        "tasks": [
            {
                "task_id": name,
                "trace": f"traces/{name}.jsonl",
                "model_calls": len(rows),
                "tool_calls": sum(len(one["recorded_tool_calls_after"]) for one in rows),
            }
            for name, rows in tasks.items()
        ],
    }
    with ZipFile(path, "w") as files:
        for machine in ("arm64", "x86_64"):
            files.writestr(f"{FOLDER}/made-v1/manifest-{machine}.json", json.dumps(manifest))
        for name, rows in tasks.items():
            text = "\n".join(map(json.dumps, rows)) + "\n"
            files.writestr(f"{FOLDER}/made-v1/traces/{name}.jsonl", text)
    return path

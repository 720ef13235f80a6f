"""The outputs of recorded programs as the table that our engine writes them from.

All outputs are known, so all prompts are: a prompt quotes outputs and results as its arm will.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer

from agentrt.base.segments import Close, Open, Role, Segment, Text
from agentrt.engine.sampling.record_table import RecordedOutput, prompt_key, write_table
from agentrt.lab.arms.wire import CallLine, ProgramLine
from agentrt.prompt import Codec


def write_replay(path: Path, model: Path, programs: Iterable[ProgramLine]) -> None:
    """Write the table of all calls of programs that have a recorded output.

    Args:
        path: The file.
        model: Checkpoint directory.
        programs: Programs as the arms get them.
    """
    codec = Codec.load(model)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, (one for line in programs for one in _outputs(line, codec, tokenizer)))


def _outputs(line: ProgramLine, codec: Codec, tokenizer: Tokenizer) -> Iterator[RecordedOutput]:
    quoted: dict[str, str] = {}
    for node in line["nodes"]:
        if node["kind"] != "call":
            quoted[node["name"]] = node["text"]
        elif output := node.get("output"):
            quoted[node["name"]] = output
            key = prompt_key(codec.encode((), _segments(node, quoted)).token_ids)
            token_ids = tokenizer.encode(output, add_special_tokens=False).ids
            yield RecordedOutput(key, node.get("seed"), tuple(token_ids))


def _segments(call: CallLine, quoted: dict[str, str]) -> list[Segment]:
    found: list[Segment] = []
    for role, parts in call["messages"]:
        text = "".join(
            part["text"] if "text" in part else quoted[next(iter(part.values()))] for part in parts
        )
        found += [Open(cast(Role, role)), Text(text), Close()]
    return found

"""Sizes from public data: samples in place of quantiles.

The README beside the files lists their sources and licences; none of them is shipped or required.
A size that no file has keeps its line of `sizes`. Four characters of a text count as a token.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.draw import Distribution, ObservedDistribution
from agentrt.lab.workloads.sizes import SIZES, Sizes

_MOST_ROWS = 20_000
_CHARACTERS_A_TOKEN = 4


def sizes_from(folder: Path) -> Sizes:
    """`SIZES`, with samples from the files of a folder.

    Args:
        folder: Folder of the files, under their names.

    Raises:
        UsageError: There is no such folder, none of the files is in it, or one cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint="Give --data the folder of the files")
    found: dict[str, Distribution] = {}
    for name, sizes in _FILES.items():
        path = folder / name
        if path.exists():
            try:
                rows = read_rows(path)
                for size, read in sizes.items():
                    found[size] = ObservedDistribution(_kept(chain.from_iterable(map(read, rows))))
            except (ValueError, KeyError, TypeError, OSError) as error:
                raise UsageError(
                    f"{path} is not as expected: {type(error).__name__}: {error}",
                    hint="Take it as its source has it, or remove it",
                ) from error
    if not found:
        raise UsageError(
            f"{folder} has none of {', '.join(_FILES)}", hint="Give the folder of the files"
        )
    return {**SIZES, **found}


def _kept(values: Iterable[float]) -> tuple[float, ...]:
    kept = tuple(value for value in values if value >= 1)[:_MOST_ROWS]
    if not kept:
        raise ValueError("it has no rows")
    return kept


def _tokens(text: str) -> float:
    return len(text) / _CHARACTERS_A_TOKEN


def read_rows(path: Path) -> Any:
    """Rows of a public file, each by the names of its columns.

    Raises:
        OSError: The file cannot be read.
        ValueError: The content is neither CSV nor JSON.
    """
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return list(csv.DictReader(file))
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in file if line.strip()]
        return json.load(file)


def _asked(task: Any) -> list[str]:
    """Texts of the messages of a task's turns."""
    return [message["content"] for turn in task["question"] for message in turn]


_FILES: dict[str, dict[str, Callable[[Any], Iterable[float]]]] = {
    "gsm8k_test.jsonl": {
        "self-consistency.question": lambda row: [_tokens(row["question"])],
        "self-consistency.answer": lambda row: [_tokens(row["answer"])],
    },
    "azure_conv_2023.csv": {
        "chat.first": lambda row: [float(row["ContextTokens"])],
        "chat.output": lambda row: [float(row["GeneratedTokens"])],
    },
    "bfcl_multi_turn_base.jsonl": {
        "react.turns": lambda row: [float(len(row["question"]))],
        "react.question": lambda row: map(_tokens, _asked(row)),
    },
    "llmcompiler_parallelqa.json": {
        "finance.question": lambda row: [_tokens(row["question"])],
    },
    "sot_vicuna.csv": {
        "skeleton.question": lambda row: [_tokens(row["request"])],
    },
}
"""Sizes by file, with the values of a row."""

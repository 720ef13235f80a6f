"""Sizes from public data: samples in place of quantiles.

The README beside the files lists their sources and licences; none of them is shipped or required.
A size that no file has keeps its line of `sizes`. Four characters of a text count as a token.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
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
    for name, read in _READERS.items():
        path = folder / name
        if path.exists():
            try:
                found |= {
                    size: ObservedDistribution(_kept(values)) for size, values in read(path).items()
                }
            except (ValueError, KeyError, TypeError, OSError) as error:
                raise UsageError(
                    f"{path} is not as expected: {type(error).__name__}: {error}",
                    hint="Take it as its source has it, or remove it",
                ) from error
    if not found:
        raise UsageError(
            f"{folder} has none of {', '.join(_READERS)}", hint="Give the folder of the files"
        )
    return {**SIZES, **found}


def _kept(values: Iterable[float]) -> tuple[float, ...]:
    kept = tuple(value for value in values if value >= 1)[:_MOST_ROWS]
    if not kept:
        raise ValueError("it has no rows")
    return kept


def _tokens(text: str) -> float:
    return len(text) / _CHARACTERS_A_TOKEN


def _jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _gsm8k(path: Path) -> dict[str, list[float]]:
    rows = _jsonl(path)
    return {
        "self-consistency.question": [_tokens(row["question"]) for row in rows],
        "self-consistency.answer": [_tokens(row["answer"]) for row in rows],
    }


def _azure(path: Path) -> dict[str, list[float]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        "chat.first": [float(row["ContextTokens"]) for row in rows],
        "chat.output": [float(row["GeneratedTokens"]) for row in rows],
    }


def _bfcl(path: Path) -> dict[str, list[float]]:
    turns = [row["question"] for row in _jsonl(path)]
    asked = [message["content"] for task in turns for turn in task for message in turn]
    return {
        "react.turns": [float(len(task)) for task in turns],
        "react.question": [_tokens(text) for text in asked],
    }


def _parallel(path: Path) -> dict[str, list[float]]:
    rows = json.loads(path.read_text("utf-8"))
    return {"finance.question": [_tokens(row["question"]) for row in rows]}


def _skeleton(path: Path) -> dict[str, list[float]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {"skeleton.question": [_tokens(row["request"]) for row in csv.DictReader(file)]}


_READERS: dict[str, Callable[[Path], dict[str, list[float]]]] = {
    "gsm8k_test.jsonl": _gsm8k,
    "azure_conv_2023.csv": _azure,
    "bfcl_multi_turn_base.jsonl": _bfcl,
    "llmcompiler_parallelqa.json": _parallel,
    "sot_vicuna.csv": _skeleton,
}

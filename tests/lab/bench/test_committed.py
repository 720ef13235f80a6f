"""Benchmark files that are committed hold what a claim needs."""

import json
import re
from pathlib import Path

import pytest

from agentrt.lab.bench.engine.result import SCHEMA

FOLDER = Path(__file__).resolve().parents[3] / "traces" / "bench"
FILES = [
    path for path in sorted(FOLDER.glob("*.json")) if f'"{SCHEMA}"' in path.read_text("utf-8")[:200]
]


def test_there_are_files() -> None:
    """A renamed schema would leave nothing to check."""
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_where_it_comes_from_and_holds_every_sample(path: Path) -> None:
    text = path.read_text("utf-8")
    found = json.loads(text)
    assert found["command"][:2] == ["bench", "engine"]
    assert path.name in (FOLDER / "README.md").read_text("utf-8")
    assert not re.search(r'"/\w', text), "a place on somebody's machine"
    for row in found["rows"]:
        rounds = zip(*(arm["samples"] for arm in row["arms"]), strict=True)
        for samples in rounds:
            assert len({tuple(sample["output_tokens"]) for sample in samples}) == 1
            assert samples[0]["output_tokens"] == [row["new_tokens"]] * row["batch"]
        for arm in row["arms"]:
            assert len({sample["output_hash"] for sample in arm["samples"]}) > 1
            assert arm["settings"]["dtype"] == row["dtype"]

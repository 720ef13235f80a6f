"""Committed traces open in Jaeger's UI, and its walk over them is the path they tell."""

import json
from pathlib import Path

import pytest

from agentrt.analysis import split
from agentrt.telemetry.reading import read
from agentrt.telemetry.recorded_run import run_record_of
from tests.oracles import jaeger

TRACES = Path(__file__).parents[2] / "traces"
SAMPLES = sorted(TRACES.glob("*.json"))


def test_there_are_samples() -> None:
    assert SAMPLES


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_sound_and_named_in_the_readme(path: Path) -> None:
    document = json.loads(path.read_text("utf-8"))
    assert jaeger.faults(document) == []
    assert jaeger.strayed(document["data"][0]) == ""
    assert f"`{path.name}`" in (TRACES / "README.md").read_text("utf-8")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_holds_the_graph_of_its_run(path: Path) -> None:
    record = run_record_of(read(path)[0])
    told_ms = read(path)[0].spans[0].attributes["agentrt.split.decode_ms"]
    assert split(record).decode * 1e3 == pytest.approx(told_ms, abs=0.01)

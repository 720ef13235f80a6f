"""The report in a real browser: on a phone, on a desk, in the dark. Skipped without Chromium."""

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.analysis.report.run_report import run_report
from agentrt.protocol.events import Event, NodeDeclared
from tests.oracles.browser import browser, measured
from tests.oracles.random_runs import play
from tests.oracles.statements import Race, Statement, WaitStatement, Work

PROGRAM = browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine"),
]
EVIL = "<img src=x onerror='parent.ran=window.ran=true'><script>window.ran=true</script>"
LONG = "compare_all_symbols_by_metric_and_period"
QUERIES = (
    ".row .name",
    ".row svg",
    ".row .took",
    ".axis span",
    ".what-ifs b",
    ".what-ifs .figure",
    ".legend b",
    ".legend .figure",
    ".graph .box text",
    ".graph .box rect",
    ".tiles > div",
)


def page() -> str:
    body: tuple[Statement, ...] = (
        Work("generate", queue_s=0.05, prefill_s=0.1, decode_s=0.4, items=2),
        WaitStatement(0, 0),
        *(Work("tool", plan=(0, 0), queue_s=0.05 * n, decode_s=0.5) for n in range(7)),
        Work("generate", deps=(1, 2), early_s=0.05, prefill_s=0.02, decode_s=0.3),
        Race((Work("tool", decode_s=0.1), Work("tool", decode_s=0.9))),
    )
    told: list[Event] = []
    for one in play(body, gate_s=0.02):
        if isinstance(one, NodeDeclared) and one.kind == "tool":
            one = replace(one, name=LONG)
        elif isinstance(one, NodeDeclared) and one.kind == "generate":
            one = replace(one, name=EVIL, site=EVIL)
        told.append(one)
    record = RunRecord()
    record.on_events(told)
    return run_report(record)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    assert PROGRAM is not None
    text, found = page(), {}
    for name, width, dark in (("wide", 1280, False), ("phone", 360, False), ("dark", 360, True)):
        folder: Path = tmp_path_factory.mktemp(name)
        found[name] = measured(PROGRAM, text, folder, width=width, queries=QUERIES, dark=dark)
    return found


@pytest.mark.parametrize("where", ["wide", "phone", "dark"])
def test_nothing_is_wider_than_the_window(seen: dict[str, Any], where: str) -> None:
    assert seen[where]["scroll_width"] <= seen[where]["width"]
    assert seen[where]["wide"] == []


@pytest.mark.parametrize("where", ["wide", "phone"])
def test_labels_do_not_overlap(seen: dict[str, Any], where: str) -> None:
    boxes = seen[where]["boxes"]
    for kinds in ((".what-ifs b", ".what-ifs .figure"), (".legend b", ".legend .figure")):
        for one, other in zip(*(boxes[kind] for kind in kinds), strict=True):
            assert not overlap(one, other)
    for one, other in combinations(boxes[".axis span"], 2):
        assert not overlap(one, other)
    rows = zip(boxes[".row .name"], boxes[".row svg"], boxes[".row .took"], strict=True)
    for name, bar, took in rows:
        assert not overlap(name, took)
        assert not overlap(name, bar)
        assert not overlap(took, bar)
    for above, below in pairwise(boxes[".row .name"]):
        assert not overlap(above, below)


@pytest.mark.parametrize("where", ["wide", "phone"])
def test_names_stay_inside_their_boxes(seen: dict[str, Any], where: str) -> None:
    boxes = seen[where]["boxes"]
    frames = [frame for frame in boxes[".graph .box rect"] if frame[2] > frame[0]]
    for text in boxes[".graph .box text"]:
        if text[2] > text[0]:  # pictures for other windows are not shown
            assert any(inside(text, frame) for frame in frames), text


def test_the_page_follows_the_scheme_of_the_user(seen: dict[str, Any]) -> None:
    assert seen["phone"]["background"] == "rgb(251, 250, 248)"
    assert seen["dark"]["background"] == "rgb(18, 20, 23)"


def test_no_text_of_the_run_becomes_code(seen: dict[str, Any]) -> None:
    assert not any(one["scripts_ran"] for one in seen.values())


def overlap(one: list[float], other: list[float]) -> bool:
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[2], other[2]), min(one[3], other[3])
    return right - left > 0.5 and bottom - top > 0.5


def inside(one: list[float], frame: list[float]) -> bool:
    return frame[0] <= one[0] and frame[1] <= one[1] and one[2] <= frame[2] and one[3] <= frame[3]

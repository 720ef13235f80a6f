"""`agentrt runs`: what was learned, shown and forgotten; who pays for a run."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.cli.main import answer
from agentrt.cli.settings import RunSettings
from agentrt.cli.stored_rows import table
from agentrt.runtime.estimate_store import EstimateRow
from agentrt.runtime.estimate_store.database import EstimateStore
from agentrt.scheduler.estimates.call_model import EndedCall
from agentrt.scheduler.estimates.call_patterns import CallPatterns
from agentrt.scheduler.estimates.estimates import Estimates, site_of

PLAN, TOOL = site_of("plan", "finance.py:3"), site_of("lookup", "finance.py:5")
TEMPLATE = "finance finance.py:finance"
CELL = st.text("ab/ .", max_size=60)
FIGURE = st.text("0123456789", max_size=6)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = Estimates()
    for _ in range(5):
        plan, tool = table.site(TEMPLATE, PLAN, 1), table.site(TEMPLATE, TOOL, 2)
        table.site(TEMPLATE, PLAN).observe("output_tokens", 58)
        table.site(TEMPLATE, PLAN).observe("busy_s", 0.08)
        table.site(TEMPLATE, TOOL).observe("tool_s", 2.5)
        plan.observe("path_s", 3.0)
        tool.observe("depth", 1)
        table.site(TEMPLATE, PLAN).observe_next((TOOL,))
        table.site(TEMPLATE, TOOL).observe_next(("",))
        table.site(TEMPLATE, "engine default").observe("context_tokens", 504)
    path = tmp_path / "estimates.sqlite"
    EstimateStore(path).save("default=tiny", table.rows())
    monkeypatch.setenv("AGENTRT_ESTIMATES", str(path))
    return path


def lines(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert answer(["runs", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def test_estimates_are_a_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = lines(capsys, "estimates")
    assert told[0] == f"{TEMPLATE}   on default=tiny"
    cells = {line.split("  ")[1]: line.split() for line in told[1:]}
    assert cells[PLAN][2:] == ["5", "58/58", "80/80ms", "3s/3s", "lookup", "100%"]
    assert cells[TOOL][2:] == ["5", "2.5s/2.5s", "1.0", "end", "100%"]
    assert cells["engine default"][2:] == ["5", "504/504"]


def test_tables_fit_the_terminal(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = "/home/somebody/projects/of-a-customer/agents"
    template = f"finance {folder}/finance.py:finance"
    names = ("finance", "plan", "lookup", "judge_the_answers", "report")
    sites = [site_of(name, f"{folder}/finance.py:{at}") for at, name in enumerate(names, 10)]
    learned = Estimates()
    for site, after in pairwise(sites):
        for number in range(1, 4):
            place = learned.site(template, site)
            for quantity in ("busy_s", "rest_s", "path_s"):
                place.observe(quantity, 0.123 * number)
            place.observe("output_tokens", 1234 * number)
            learned.site(template, site, 1).observe("depth", 3)
            place.observe_next((after, sites[-1]))
    EstimateStore(path).save(
        f"default={folder}/model@cpu,judge=http://10.0.0.1:8000", learned.rows()
    )
    for width in (80, 100, 240):
        monkeypatch.setenv("COLUMNS", str(width))
        told = lines(capsys, "estimates", "--site", "*agents*")
        assert max(map(len, told)) <= width
        assert folder in "".join(told).replace(" ", "")
        text = " ".join(" ".join(told).split())
        assert all(f"{name} " in text for name in names)
        assert all(f"finance.py:{at}" in text for at in (10, 11, 12, 13))


@given(
    st.lists(st.tuples(CELL, FIGURE, FIGURE, CELL), min_size=1),
    st.integers(40, 200) | st.none(),
)
def test_no_text_of_a_table_is_lost(rows: list[tuple[str, ...]], width: int | None) -> None:
    told = table([("site", "seen", "mean", "then"), *rows], width)
    assert width is None or max(map(len, told)) <= width
    words = Counter("".join(told).replace(" ", ""))
    assert words >= Counter("".join(cell for row in rows for cell in row).replace(" ", ""))


def test_a_pattern_picks_sites_or_programs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(lines(capsys, "estimates", "--site", "plan")) == 3
    assert len(lines(capsys, "estimates", "--site", "finance *")) == 5
    (told,) = lines(capsys, "estimates", "--site", "nobody*")
    assert told == f"Nothing was learned of 'nobody*'; looked in {path}"


def test_json_has_all_depths(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = lines(capsys, "estimates", "--json", "--site", "plan")
    told = json.loads(text)
    assert told["schema"] == "agentrt.estimates/1"
    anywhere, first = told["places"]
    assert (anywhere["depth"], first["depth"]) == (None, 1)
    assert anywhere["quantities"]["output_tokens"]["p50"] == pytest.approx(58)
    assert anywhere["follows"] == {TOOL: pytest.approx(1.0)}
    assert first["quantities"]["path_s"]["count"] == 5


def test_what_is_forgotten_is_gone(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "forget", "--site", "plan") == ["forgot 5 rows"]
    assert PLAN not in "".join(lines(capsys, "estimates"))
    assert TOOL in "".join(lines(capsys, "estimates"))
    lines(capsys, "forget")
    assert lines(capsys, "estimates")[0].startswith("Nothing was learned")


def test_nothing_is_kept_where_the_user_wants_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRT_ESTIMATES", "off")
    (told,) = lines(capsys, "estimates")
    assert told == "Nothing was learned yet; learning is switched off"
    assert lines(capsys, "forget") == ["forgot 0 rows"]


@pytest.fixture
def calls(path: Path) -> Path:
    table = CallPatterns()
    for query in "abcd":
        search = EndedCall("search", {"q": query}, {"hits": [{"id": f"{query}1"}]}, True)
        asked = {"page": f"{query}1", "size": 3, "who": "Ada", "raw": True}
        table.learn_call(TEMPLATE, (search,), 0, "fetch", asked, ["size", "raw"])
    EstimateStore(path).save("default=tiny", table.rows())
    return path


def test_patterns_are_a_table(
    calls: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = lines(capsys, "patterns")
    assert told[0] == f"{TEMPLATE}   on default=tiny"
    assert told[1].split() == ["after", "next", "seen", "right", "arguments"]
    assert told[2].split()[:4] == ["search", "fetch", "4", "100%"]
    assert told[2].endswith(
        "page = search's result.hits[0].id, size = 3, who = ? (a constant that is not kept), "
        "raw = true"
    )
    assert "fetch" not in "".join(lines(capsys, "estimates")), "tables of their own"


def test_patterns_are_an_object(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = lines(capsys, "patterns", "--json", "--site", "search")
    (told,) = json.loads(text)["patterns"]
    assert (told["after"], told["tool"], told["probability"]) == ("search", "fetch", 1.0)
    assert told["arguments"] == {
        "page": [0, "result", "hits", 0, "id"],
        "size": ["always", "3"],
        "raw": ["always", "true"],
        "who": None,
    }


def test_no_value_that_may_be_private_is_in_the_file(calls: Path) -> None:
    for part in calls.parent.glob(f"{calls.name}*"):
        content = part.read_bytes()
        assert b"Ada" not in content
        assert b"a1" not in content


def test_patterns_are_forgotten_with_their_program(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(capsys, "forget", "--site", "search") == ["forgot 1 rows"]
    (told,) = lines(capsys, "patterns")
    assert told.startswith("Nothing was learned")


def test_a_file_that_somebody_changed_is_told(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    EstimateStore(calls).save(
        "default=tiny", [EstimateRow("p", "s", None, "colour", 1, {"weight": 1.0})]
    )
    assert answer(["runs", "estimates"]) == 2
    assert "'colour' is nothing that is learned" in capsys.readouterr().err


def test_a_run_says_who_pays_and_how_urgent_it_is() -> None:
    settings = RunSettings("x.py", tenant="research", priority=-2)
    assert (settings.tenant, settings.priority) == ("research", -2)


def test_tools_are_called_ahead_only_when_asked() -> None:
    assert not RunSettings("x.py").speculate
    assert RunSettings("x.py", speculate=True).speculate

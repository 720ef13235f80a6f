"""`agentrt runs`: what was learned, shown and forgotten; who pays for a run."""

import json
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from agentrt.cli.run_flags import settings_of
from agentrt.scheduler.estimates import Estimates, site_of
from agentrt.scheduler.histogram import DECAY
from agentrt.store.estimates import EstimateStore

PLAN, TOOL = site_of("plan", "finance.py:3"), site_of("lookup", "finance.py:5")
TEMPLATE = "finance finance.py:finance"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = Estimates()
    for _ in range(5):
        plan, tool = table.place(TEMPLATE, PLAN, 1), table.place(TEMPLATE, TOOL, 2)
        table.place(TEMPLATE, PLAN).observe("output_tokens", 58)
        table.place(TEMPLATE, PLAN).observe("busy_s", 0.08)
        table.place(TEMPLATE, TOOL).observe("tool_s", 2.5)
        plan.observe("path_s", 3.0)
        tool.observe("depth", 1)
        table.place(TEMPLATE, PLAN).follow((TOOL,))
        table.place(TEMPLATE, TOOL).follow(("",))
        table.place(TEMPLATE, "engine default").observe("context_tokens", 504)
    path = tmp_path / "estimates.sqlite"
    EstimateStore(path, DECAY).save("default=tiny", table.rows())
    monkeypatch.setenv("AGENTRT_ESTIMATES", str(path))
    return path


def lines(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert answer(["runs", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def test_estimates_are_a_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = lines(capsys, "estimates")
    assert told[0] == f"{TEMPLATE}   on default=tiny"
    cells = {line.split("  ")[1]: line.split() for line in told[1:]}
    assert cells[PLAN][2:] == ["5", "58/58", "80ms/80ms", "3s/3s", "lookup", "100%"]
    assert cells[TOOL][2:] == ["5", "2.5s/2.5s", "1.0", "end", "100%"]
    assert cells["engine default"][2:] == ["5", "504/504", "peak", "KV"]


def test_a_pattern_picks_sites_or_programs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(lines(capsys, "estimates", "--site", "plan")) == 3
    assert len(lines(capsys, "estimates", "--site", "finance *")) == 5
    (told,) = lines(capsys, "estimates", "--site", "nobody*")
    assert told == f"Nothing was learned of 'nobody*'. What is kept knows of none: {path}"


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
    assert told == "Nothing was learned of '*'. What is kept is switched off"
    assert lines(capsys, "forget") == ["forgot 0 rows"]


def test_a_run_says_who_pays_and_how_urgent_it_is() -> None:
    settings = settings_of("x.py", tenant="research", priority=-2)
    assert (settings.tenant, settings.priority) == ("research", -2)


def test_tools_are_called_ahead_only_when_asked() -> None:
    assert not settings_of("x.py").speculate
    assert settings_of("x.py", speculate=True).speculate

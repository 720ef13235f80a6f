"""`agentrt eval` on a remote engine: our own server over HTTP, with costs in money."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Command
from tests.syntax import ROOT

SUITE = ROOT / "examples" / "suites" / "extraction"


def test_a_served_model_gives_what_it_gives_here_and_costs(
    evaluate: Command, own_engine: str
) -> None:
    argv = (str(SUITE), "--limit", "4", "--configs", f"embedded,{own_engine}")
    code, out, err = evaluate(*argv, "--json", "told.json", "--fail-if", "fidelity<100%")
    told = json.loads(Path("told.json").read_text())
    here, there = told["configs"]
    assert code == 0, out + err
    assert there["figures"]["fidelity"] == 1
    assert there["errors"] == 0
    assert (here["currency"], there["currency"]) == ("", "EUR")
    rows = [row for row in told["results"] if row["config"] == own_engine]
    assert there["figures"]["cost"] == pytest.approx(sum(r["cost_pico"] for r in rows) / 1e12)
    assert all(row["cost_pico"] > 10e6 * row["output_tokens"] for row in rows)  # and its prompt
    assert f"{there['figures']['cost']:.4g} EUR" in out


def test_a_limit_of_costs_holds_where_each_configuration_has_prices(
    evaluate: Command, own_engine: str
) -> None:
    argv = (str(SUITE), "--limit", "2", "--fail-if", "cost>0.000001")
    code, out, _ = evaluate(*argv, "--configs", own_engine)
    assert (code, "crossed: own: cost>0.000001" in out) == (6, True)
    code, out, err = evaluate(*argv, "--configs", f"embedded,{own_engine}")
    assert (code, out, "needs prices in one currency" in err) == (2, "", True)


def test_an_address_alone_is_a_configuration(evaluate: Command, served_url: str) -> None:
    code, out, err = evaluate(str(SUITE), "--limit", "2", "--configs", served_url)
    assert code == 0
    assert "/v1: 2 of 2 cases to run\n" in err
    assert served_url in out


def test_a_server_that_is_away_ends_the_evaluation(evaluate: Command) -> None:
    code, out, err = evaluate(str(SUITE), "--limit", "1", "--configs", "http://127.0.0.1:9")
    assert (code, out) == (3, "")
    assert "127.0.0.1:9" in err

"""Programs run as they are tell their own account."""

from pathlib import Path
from typing import Any

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.bench.compound.live import CASES, measured_live, summary_of

PROGRAMS = Path(__file__).resolve().parents[3] / "programs"


def run(compound_ms: float, *, ok: bool = True) -> dict[str, Any]:
    return {
        "ok": ok,
        "latency": {"compound_ms": compound_ms, "split_ms": {"decode": compound_ms, "tool": 0.0}},
        "usage": {"output_tokens": 10, "forced_tokens": 4},
    }


def test_runs_are_told_together() -> None:
    found = summary_of([run(100.0), run(300.0, ok=False), run(200.0)])
    assert (found["ok"], found["runs"]) == (2, 3)
    assert found["latency_s"]["p50"]["value"] == pytest.approx(0.2)
    assert found["split_s"] == {"decode": pytest.approx(0.2), "tool": 0.0}
    assert found["usage"] == {"output_tokens": 30, "forced_tokens": 12}


def test_there_are_inputs_for_every_program() -> None:
    others = {path.stem for path in PROGRAMS.glob("*.py")} - CASES.keys()
    assert others == {"market", "closes", "gazetteer"}


def test_a_folder_without_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has none of finance\.py"):
        measured_live(tmp_path, 1)


@pytest.mark.slow
def test_a_program_is_run_as_users_run_it(tmp_path: Path) -> None:
    (tmp_path / "extract.py").symlink_to(PROGRAMS / "extract.py")
    found = measured_live(tmp_path, 1)["extract"]
    assert found["ok"] == found["runs"] == len(CASES["extract"])
    assert found["usage"]["forced_tokens"] > 0

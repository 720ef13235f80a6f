"""`agentrt trace open`: in a Jaeger that has the run, else as a report in a browser."""

import json
import os
import webbrowser
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.ids import RunId, trace_id_of
from agentrt.cli.trace_open import MOST_REPORTS, has_display
from agentrt.telemetry import JaegerFile, build
from tests.oracles.http_answers import answering
from tests.oracles.pages import faults, page_of
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

BODY: tuple[Statement, ...] = (
    Work("generate", queue_s=0.2, prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", deps=(0,), decode_s=0.5),
)
TRACE_ID = trace_id_of(RunId("a1"))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    record = RunRecord()
    record.on_events(play(BODY, run_id="a1"))
    return JaegerFile(tmp_path / "runs").export([build(record)])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that the browser was given; there is a display, and nothing names a viewer."""
    found: list[str] = []
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("AGENTRT_TRACE_URL", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")

    def open_url(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_url)
    return found


@pytest.fixture
def open_run(inside: Callable[..., Any], written: Path, opened: list[str]) -> Callable[..., Any]:
    return lambda *words: inside("trace", "open", str(written), *words)


@pytest.fixture
def jaeger() -> Iterator[tuple[str, dict[str, Any]]]:
    """Address of a server with Jaeger's API, and its answers by path."""
    answers: dict[str, Any] = {}

    def answer(asked: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        return 200 if asked.path in answers else 404, json.dumps(answers.get(asked.path)).encode()

    with answering(answer) as url:
        yield url, answers


def test_without_a_viewer_a_report_is_opened(
    open_run: Callable[..., Any], opened: list[str], tmp_path: Path
) -> None:
    told = open_run()
    path = tmp_path / "state" / "agentrt" / "reports" / f"{TRACE_ID}.html"
    assert (told.code, told.err) == (0, "")
    assert told.out == f"{path}\n"
    assert opened == [path.as_uri()]
    assert path.stat().st_mode & 0o777 == 0o600
    page = page_of(path.read_text())
    assert faults(page) == []
    timeline = page.named("timeline").text()
    assert all(name in timeline for name in ("generate0", "tool1", "critical path"))
    assert "queue 200 ms" in timeline


def test_without_a_display_the_path_is_printed(
    open_run: Callable[..., Any], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    told = open_run()
    assert Path(told.out.strip()).is_file()
    assert "there is no display" in told.err
    assert opened == []


def test_a_jaeger_that_has_the_run_is_opened(
    open_run: Callable[..., Any], opened: list[str], jaeger: tuple[str, dict[str, Any]]
) -> None:
    url, answers = jaeger
    answers[f"/api/traces/{TRACE_ID}"] = {"data": [{"traceID": TRACE_ID}]}
    assert open_run("--viewer", f"{url}/search").code == 0
    assert opened == [f"{url}/trace/{TRACE_ID}"]


@pytest.mark.parametrize("answer", [None, {"data": []}, [1]])
def test_a_jaeger_without_the_run_is_told_of(
    open_run: Callable[..., Any],
    opened: list[str],
    jaeger: tuple[str, dict[str, Any]],
    written: Path,
    answer: Any,
) -> None:
    url, answers = jaeger
    if answer is not None:
        answers[f"/api/traces/{TRACE_ID}"] = answer
    told = open_run("--viewer", url)
    assert (
        told.err
        == f"{url} does not have this run: choose Upload in {url}/search and give it "
        + (f"{written}\n")
    )
    assert opened[0].endswith(f"{TRACE_ID}.html")


def test_the_environment_names_a_viewer(
    open_run: Callable[..., Any], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRT_TRACE_URL", "https://traces.example/{trace_id}?tab=spans")
    open_run()
    assert opened == [f"https://traces.example/{TRACE_ID}?tab=spans"]


def test_a_collector_beside_which_no_jaeger_answers_is_no_error(
    open_run: Callable[..., Any], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.2:4318")
    told = open_run()
    assert told.code == 0
    assert opened[0].endswith(f"{TRACE_ID}.html")


@pytest.mark.parametrize(
    ("viewer", "code", "what"),
    [("http://127.0.0.1:1", 3, "no Jaeger answers"), ("jaeger", 2, "is no address of a viewer")],
)
def test_a_viewer_that_cannot_be_meant(
    open_run: Callable[..., Any], viewer: str, code: int, what: str
) -> None:
    told = open_run("--viewer", viewer)
    assert told.code == code
    assert what in told.lines[0]


def test_old_reports_are_removed(open_run: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "state" / "agentrt" / "reports"
    folder.mkdir(parents=True)
    for number in range(MOST_REPORTS + 3):
        (folder / f"{number}.html").touch()
        os.utime(folder / f"{number}.html", (number, number))
    open_run()
    left = {path.stem for path in folder.iterdir()}
    assert len(left) == MOST_REPORTS
    assert TRACE_ID in left
    assert "0" not in left


def test_a_file_for_the_report(open_run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "picture.html"
    assert open_run("--out", str(out)).out == f"{out}\n"
    assert out.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("environment", "platform", "shown"),
    [
        ({}, "linux", False),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_a_display(environment: dict[str, str], platform: str, shown: bool) -> None:
    assert has_display(environment, platform) is shown

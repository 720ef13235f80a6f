"""A run over a fleet: the search of the client's rate, and what a later part plays again."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from agentrt.lab.bench.compound.load_draw import LoadDraw
from agentrt.lab.bench.fleet.fleet_play import FleetPlay, PlayKey
from agentrt.lab.bench.fleet.fleet_targets import CLIENT, KNOWING, OURS
from agentrt.lab.bench.fleet.run import FleetRun, StrongestClient

DRAWS = [LoadDraw(number, (), {}, "") for number in range(2)]
WARM = LoadDraw(9, (), {}, "")
FOUND = StrongestClient(8, 6.0, 5.0)


class _Run(FleetRun):
    """Plays whose slowdown grows with the rate; a width of 8 is a little quicker."""

    def __init__(self, kept: Iterable[FleetPlay] = ()) -> None:
        self.written: list[int] = []
        super().__init__(None, None, None, kept=kept, on_play=self._note)  # type: ignore[arg-type]
        self.arms = dict.fromkeys((CLIENT, OURS, KNOWING))  # type: ignore[assignment]
        self.made: list[PlayKey] = []

    def _note(self, plays: object) -> None:
        self.written.append(len(self.plays))

    def _played(self, key: PlayKey, draw: LoadDraw) -> FleetPlay:
        self.made.append(key)
        arm, number, play, rate, width = key
        slowdown = rate / (2.2 if width == 8 else 2.0)
        facts = (("a",), (10.0 * slowdown,), (10,), (1.0,), 100, 70, 10.0, 1.0)
        return FleetPlay(arm, number, play, rate, *facts, width=width)


def test_the_client_is_slow_at_its_best_width() -> None:
    run = _Run()
    found = run.strongest_client(DRAWS, (0, 8), first_rate=6.0, slowdown=5.0)
    assert found.width == 8
    assert abs(found.slowdown - 5.0) <= 0.15 * 5.0
    assert len(set(run.made)) == len(run.made), "no play is made twice"


def test_the_file_is_written_after_each_play() -> None:
    run = _Run()
    run.compare(DRAWS, 1, FOUND, WARM)
    assert run.written == list(range(1, len(run.made) + 1))


def test_a_later_part_plays_what_is_missing_and_learns_anew() -> None:
    first = _Run()
    whole = first.compare(DRAWS, 2, FOUND, WARM)
    assert len(whole) == 2 * 2 * 3
    kept = [one for one in first.plays if not (one.arm == OURS and (one.draw, one.play) == (1, 1))]
    second = _Run(kept)
    assert second.compare(DRAWS, 2, FOUND, WARM) == whole
    assert [key[:3] for key in second.made] == [(OURS, WARM.number, 0), (OURS, 1, 1)]
    third = _Run(second.plays)
    assert third.compare(DRAWS, 2, FOUND, WARM) == whole
    assert not third.made


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "agentrt.bench.gpu/2"}'])
def test_a_file_that_is_none_of_the_bench_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.json"
    path.write_text(content, "utf-8")
    assert answer(["bench", "fleet", "--resume", str(path)]) == 2
    assert "Give --resume a file of agentrt bench fleet" in capsys.readouterr().err
    assert path.read_text("utf-8") == content

"""Trace files of batches are counted for themselves."""

from pathlib import Path

from agentrt.analysis import RunRecord
from agentrt.base.ids import RunId
from agentrt.telemetry import JaegerFile, build
from agentrt.telemetry.run_files import MAX_BATCHES
from tests.oracles.random_runs import play
from tests.oracles.statements import Work


def write(folder: Path, count: int, batch_id: str, first: int = 0) -> list[Path]:
    """Trace files of so many runs."""
    sink = JaegerFile(folder, max_files=3, batch_id=batch_id)
    found = []
    for number in range(first, first + count):
        record = RunRecord()
        record.on_events(play((Work("tool", decode_s=0.1),), run_id=RunId(f"{number:016x}")))
        found.append(sink.export([build(record)]))
    return found


def left(folder: Path) -> set[Path]:
    return set(folder.glob("*.json"))


def test_a_batch_pushes_out_its_own_files_only(tmp_path: Path) -> None:
    single = write(tmp_path, 3, "")
    batch = write(tmp_path, 5, "0a", 10)
    assert set(single) <= left(tmp_path)
    assert len(left(tmp_path)) == 6
    assert batch[-1] in left(tmp_path)
    later = write(tmp_path, 1, "", 30)
    assert len(left(tmp_path) & {*single, *later}) == 3
    assert len(left(tmp_path)) == 6, "and single runs push out none of a batch"


def test_the_latest_batches_are_kept(tmp_path: Path) -> None:
    for number in range(MAX_BATCHES + 2):
        write(tmp_path, 2, f"{number:x}", 10 * number)
    groups = {path.name.partition("@")[2].partition("-")[0] for path in left(tmp_path)}
    assert len(groups) == MAX_BATCHES
    assert f"{MAX_BATCHES + 1:x}" in groups, "the one that was written last"

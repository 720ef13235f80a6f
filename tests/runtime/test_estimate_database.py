"""The file of learned quantities: kept, merged, moved aside, left alone."""

import logging
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.runtime.estimate_store import EstimateRow, estimates_path
from agentrt.runtime.estimate_store.database import KEEP_DAYS, EstimateStore
from agentrt.scheduler.estimates.estimates import Estimates
from agentrt.scheduler.estimates.row import merge_rows

ENGINES = "default=tiny"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "estimates.sqlite"


def store(path: Path) -> EstimateStore:
    return EstimateStore(path)


def learned(values: list[float], table: Estimates | None = None) -> Estimates:
    table = Estimates() if table is None else table
    for value in values:
        table.site("p", "a p.py:1", 2).observe("rest_s", value)
        table.site("p", "a p.py:1").observe_next(("b p.py:2",))
    return table


def sums(rows: list[EstimateRow]) -> dict[object, dict[str, float]]:
    return {row.key: row.sums for row in rows}


def test_what_was_saved_is_there_again(path: Path) -> None:
    table = learned([1.0, 2.0, 4.0])
    store(path).save(ENGINES, table.rows())
    rows = store(path).load(ENGINES)
    assert sums(rows) == {row.key: pytest.approx(row.sums) for row in table.rows()}
    assert {row.key: row.count for row in rows} == {row.key: row.count for row in table.rows()}
    assert Estimates(rows).site("p", "a p.py:1", 2).p50("rest_s") == pytest.approx(2.0)


def test_engines_are_kept_apart(path: Path) -> None:
    store(path).save(ENGINES, learned([1.0]).rows())
    assert store(path).load("default=large") == []
    store(path).save("default=large", learned([50.0]).rows())
    (row,) = [r for r in store(path).load(ENGINES) if r.depth == 2]
    assert row.sums["total"] == pytest.approx(1.0)


def test_two_that_learn_at_once_lose_nothing(path: Path) -> None:
    store(path).save(ENGINES, learned([1.0, 1.0]).rows())
    one, other = store(path), store(path)
    first, second = Estimates(one.load(ENGINES)), Estimates(other.load(ENGINES))
    learned([5.0] * 3, first)
    learned([9.0] * 3, second)
    one.save(ENGINES, first.rows())
    other.save(ENGINES, second.rows())
    in_turn = learned([1.0] * 2 + [5.0] * 3 + [9.0] * 3)
    rows = [row for row in store(path).load(ENGINES) if row.site]
    wanted = {row.key: row for row in in_turn.rows()}
    assert {row.key: row.count for row in rows} == {r.key: wanted[r.key].count for r in rows}
    assert sums(rows) == {row.key: pytest.approx(wanted[row.key].sums) for row in rows}


def test_saving_again_adds_only_what_is_new(path: Path) -> None:
    one, other = store(path), store(path)
    mine, theirs = Estimates(one.load(ENGINES)), Estimates(other.load(ENGINES))
    one.save(ENGINES, learned([5.0] * 3, mine).rows())
    other.save(ENGINES, learned([9.0] * 4, theirs).rows())
    one.save(ENGINES, learned([5.0], mine).rows())
    one.save(ENGINES, mine.rows())
    rows = [row for row in store(path).load(ENGINES) if row.site]
    wanted = {row.key: row for row in learned([5.0] * 3 + [9.0] * 4 + [5.0]).rows()}
    assert sums(rows) == {row.key: pytest.approx(wanted[row.key].sums) for row in rows}
    assert all(row.count == 8 for row in rows)
    one.save(ENGINES, learned([6.0], mine).rows())
    other.save(ENGINES, learned([7.0], theirs).rows())
    in_turn = learned([5.0] * 3 + [9.0] * 4 + [5.0, 6.0, 7.0])
    wanted = {row.key: row for row in in_turn.rows() if row.depth == 2}
    found = [row for row in store(path).load(ENGINES) if row.depth == 2]
    assert sums(found) == {key: pytest.approx(row.sums) for key, row in wanted.items()}
    assert [row.count for row in found] == [10]


def test_what_has_decayed_is_taken_away_once(path: Path) -> None:
    """Each process forgets it as it reads, and takes away what it has forgotten."""
    table = learned([1e-3, *[5.0] * 2065])
    assert min(v for row in table.rows() if row.depth == 2 for v in row.sums.values()) < 0.0
    store(path).save(ENGINES, table.rows())
    several = [store(path) for _ in range(4)]
    tables = [Estimates(one.load(ENGINES)) for one in several]
    for one, mine in zip(several, tables, strict=True):
        one.save(ENGINES, learned([5.0], mine).rows())
    assert [row.count for row in store(path).load(ENGINES) if row.depth == 2] == [2070]
    Estimates(store(path).load(ENGINES))


def test_merging_is_learning_in_turn() -> None:
    base = {row.key: row for row in learned([3.0]).rows()}
    stored = {row.key: row for row in learned([3.0, 7.0, 7.0]).rows()}
    for mine in learned([3.0, 30.0]).rows():
        if not mine.site:
            continue
        row = merge_rows(stored[mine.key], base[mine.key], mine)
        wanted = next(r for r in learned([3.0, 7.0, 7.0, 30.0]).rows() if r.key == mine.key)
        assert row.count == 4
        assert row.sums == pytest.approx(wanted.sums)
        Estimates([row])


@pytest.mark.parametrize(
    "content",
    [b"no database at all", b"SQLite format 3\x00" + b"\xff" * 4000],
    ids=["text", "garbage"],
)
def test_a_broken_file_is_moved_aside(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    one = store(path)
    with caplog.at_level(logging.WARNING):
        assert one.load(ENGINES) == []
    assert "learning begins anew" in caplog.text
    (aside,) = path.parent.glob("*.broken-*")
    assert aside.read_bytes() == content
    one.save(ENGINES, learned([1.0]).rows())
    assert store(path).load(ENGINES)


@pytest.mark.parametrize(
    "change",
    [
        "sums = 'hello'",
        "sums = '[1]'",
        """sums = '{"weight": [1]}'""",
        """sums = '{"weight": NaN}'""",
        f"sums = '{'[' * 100_000}'",
        "count = 0",
        "count = 'many'",
        "depth = 'deep'",
    ],
    ids=range(8),
)
def test_a_row_that_somebody_wrote_is_no_error(
    path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    store(path).save(ENGINES, learned([1.0]).rows())
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE estimates SET {change} WHERE depth = '2'")
    database.close()
    assert store(path).load(ENGINES) == []
    assert "learning begins anew" in caplog.text


def test_a_later_version_is_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store(path).save(ENGINES, learned([1.0]).rows())
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    before = path.read_bytes()
    one = store(path)
    assert one.load(ENGINES) == []
    one.save(ENGINES, learned([2.0]).rows())
    assert path.read_bytes() == before
    assert "later agentrt" in caplog.text


def test_a_file_that_is_locked_is_no_error(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt.runtime.estimate_store.database.BUSY_S", 0.0)
    store(path).save(ENGINES, learned([1.0]).rows())
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    one = store(path)
    table = Estimates(one.load(ENGINES))
    one.save(ENGINES, learned([2.0], table).rows())
    holder.close()
    assert "is not kept" in caplog.text
    assert not list(path.parent.glob("*.broken-*"))
    one.save(ENGINES, table.rows())
    assert {row.count for row in store(path).load(ENGINES)} == {2}


def test_a_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file")
    store(tmp_path / "state" / "estimates.sqlite").save(ENGINES, learned([1.0]).rows())
    assert "is not kept" in caplog.text


@settings(derandomize=True, max_examples=40, deadline=None)
@given(turns=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=14))
def test_whoever_saves_when_nothing_is_lost_or_counted_twice(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, int, bool]]
) -> None:
    """Three processes observe and save in any order, each as often as it likes."""
    path = tmp_path_factory.mktemp("turns") / "estimates.sqlite"
    stores = [store(path) for _ in range(3)]
    tables = [Estimates(one.load(ENGINES)) for one in stores]
    told = 0
    for who, more, saves in [*turns, (0, 0, True), (1, 0, True), (2, 0, True)]:
        for _ in range(more):
            told += 1
            tables[who].site("p", "a p.py:1").observe("output_tokens", float(told))
        if saves:
            stores[who].save(ENGINES, tables[who].changed_rows())
    rows = {row.key: row for row in store(path).load(ENGINES)}
    assert sum(row.count for key, row in rows.items() if key[1] == "a p.py:1") == told
    Estimates(rows.values())


def test_what_another_process_forgot_does_not_come_back(path: Path) -> None:
    one = store(path)
    table = Estimates(one.load(ENGINES))
    one.save(ENGINES, learned([5.0] * 3, table).rows())
    store(path).forget("a")
    one.save(ENGINES, learned([9.0] * 2, table).rows())
    rows = {row.key: row for row in store(path).load(ENGINES)}
    fresh = {row.key: row for row in learned([9.0] * 2).rows()}
    key = ("p", "a p.py:1", 2, "rest_s")
    assert rows[key].count == 2
    again = Estimates([rows[key]]).site(*key[:3])
    assert again.mean("rest_s", 0.0) == Estimates([fresh[key]]).site(*key[:3]).mean("rest_s", 0.0)
    assert again.histograms["rest_s"].mean == pytest.approx(9.0)


def test_two_files_of_one_name_are_two_programs(path: Path) -> None:
    here, there = EstimateStore(path, "/home/me/here"), EstimateStore(path, "/home/me/there")
    table = Estimates()
    table.site("agent sub/agent.py:agent", "plan sub/agent.py:31").observe("output_tokens", 5.0)
    table.site("agent sub/agent.py:agent", "plan sub/agent.py:31").observe_next(
        ("a sub/agent.py:32",)
    )
    here.save(ENGINES, table.rows())
    assert {r.template for r in there.load(ENGINES)} == {
        "",
        "agent /home/me/here/sub/agent.py:agent",
    }
    above = EstimateStore(path, "/home/me").load(ENGINES)
    (follows,) = [row for row in above if row.quantity == "next"]
    assert follows.site == "plan here/sub/agent.py:31"
    assert set(follows.sums) == {"weight", "next:a here/sub/agent.py:32"}
    again = sums(EstimateStore(path, "/home/me/here").load(ENGINES))
    assert again == sums(list(table.rows()))


def test_what_nobody_uses_any_more_is_forgotten(path: Path) -> None:
    day_s = 86_400.0
    row = EstimateRow("p", "renamed", None, "rest_s", 1, {"weight": 1.0})
    store(path).save(ENGINES, [row], now_unix_s=day_s)
    late_s = (KEEP_DAYS + 0.5) * day_s
    used = EstimateRow("p", "used", None, "rest_s", 1, {"weight": 1.0})
    assert [r.site for r in store(path).load(ENGINES, now_unix_s=late_s)] == ["renamed"]
    store(path).save(ENGINES, [used], now_unix_s=late_s + day_s)
    assert [r.site for r in store(path).load(ENGINES, now_unix_s=late_s)] == ["used"]


def test_an_earlier_file_is_begun_anew(path: Path) -> None:
    """It told no folders apart."""
    store(path).save(ENGINES, learned([1.0]).rows())
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 1")
    database.close()
    assert store(path).load(ENGINES) == []
    store(path).save(ENGINES, learned([2.0]).rows())
    assert store(path).load(ENGINES)


def test_only_so_much_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrt.runtime.estimate_store.database.MOST_ROWS", 3)
    for number in range(8):
        row = EstimateRow("p", f"s{number}", None, "rest_s", 1, {"weight": 1.0})
        store(path).save(ENGINES, [row], now_unix_s=float(number))
    kept = store(path).load(ENGINES, now_unix_s=8.0)
    assert [row.site for row in kept] == ["s5", "s6", "s7"]


def test_forgetting_goes_by_pattern(path: Path) -> None:
    table = learned([1.0])
    table.site("q file.py:q", "tool q.py:3").observe("tool_s", 1.0)
    store(path).save(ENGINES, table.rows())
    assert store(path).forget("tool*") == 1
    assert store(path).forget("p") > 0
    assert {row.template for row in store(path).load(ENGINES)} == {"", "q file.py:q"}
    assert store(path).forget() > 0
    assert store(path).all_rows() == []


def test_processes_write_at_once(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from agentrt.scheduler.estimates.estimates import Estimates\n"
        "from agentrt.runtime.estimate_store.database import EstimateStore\n"
        "for _ in range(10):\n"
        "    store = EstimateStore(Path(sys.argv[1]))\n"
        "    table = Estimates(store.load('e'))\n"
        "    table.site('p', 's').observe('busy_s', 1.0)\n"
        "    store.save('e', table.rows())\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    told = [process.communicate(timeout=60)[1] for process in running]
    assert told == [b""] * 3
    rows = {row.key: row.count for row in store(path).load("e")}
    assert rows["p", "s", None, "busy_s"] == 30


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"AGENTRT_ESTIMATES": "off", "XDG_STATE_HOME": "/s"}, None),
        ({"AGENTRT_ESTIMATES": "/x/e.sqlite"}, Path("/x/e.sqlite")),
        ({"XDG_STATE_HOME": "/s"}, Path("/s/agentrt/estimates.sqlite")),
        ({"XDG_STATE_HOME": "relative"}, Path.home() / ".local/state/agentrt/estimates.sqlite"),
        ({}, Path.home() / ".local/state/agentrt/estimates.sqlite"),
    ],
)
def test_where_it_stands(environment: dict[str, str], wanted: Path | None) -> None:
    assert estimates_path(environment) == wanted

"""The file of an evaluation's results, with two evaluations at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentrt import UsageError
from agentrt.lab.evaluation.case_result import CaseResult, ResultLog

HEADER = {"suite": "a"}


def test_two_evaluations_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = ResultLog(path, HEADER)
    with pytest.raises(UsageError, match="another evaluation writes to"):
        ResultLog(path, HEADER)
    result = CaseResult("embedded", "1", True, 1.0, "é", "", 0.5)
    log.add(result)
    log.close()
    again = ResultLog(path, HEADER)
    assert again.results == {("embedded", "1"): result}
    again.close()


def test_a_file_that_is_refused_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    ResultLog(path, HEADER).close()
    before = path.read_bytes() + b'{"cut'
    path.write_bytes(before)
    with pytest.raises(UsageError, match="suite differs"):
        ResultLog(path, {"suite": "b"})
    assert path.read_bytes() == before
    ResultLog(path, HEADER).close()  # nobody holds it any more


def test_a_configuration_is_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = ResultLog(path, {"suite": "a", "config one": "1"})
    log.add(CaseResult("one", "1", True, 1.0, None, "", 0.5))
    log.close()
    log = ResultLog(path, {"suite": "a", "config two": "2"})
    assert list(log.results) == [("one", "1")]
    log.add(CaseResult("two", "1", True, 1.0, None, "", 0.5))
    log.close()
    log = ResultLog(path, {"suite": "a", "config one": "1", "config two": "2"})
    assert list(log.results) == [("one", "1"), ("two", "1")]
    log.close()
    for header in ({"suite": "a", "config two": "3"}, {"suite": "b", "config one": "1"}):
        with pytest.raises(UsageError, match="differs"):
            ResultLog(path, header)


def test_results_of_later_turns_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = ResultLog(path, HEADER)
    first = CaseResult("one", "a", True, 1.0, "x", "", 0.5)
    again = replace(first, latency_s=0.7, turn=2)
    log.add(first)
    log.add(again)
    log.close()
    assert '"turn"' not in path.read_text().splitlines()[1]  # as files without turns have it
    found = ResultLog(path, HEADER)
    found.close()
    assert found.results == {("one", "a"): first}
    assert found.timings == {("one", "a", 2): again}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"notes of mine", b'{"a": 1}'])
def test_a_foreign_file_without_a_line_end_is_not_taken_for_a_cut_off_one(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is no file of an evaluation: see line 1"):
        ResultLog(path, HEADER)
    assert path.read_bytes() == content
    path.write_bytes(b'{"evaluat')
    ResultLog(path, HEADER).close()
    assert path.read_text().startswith('{"evaluation"')

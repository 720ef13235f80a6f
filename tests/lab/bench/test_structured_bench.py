"""The bench of structured output: its cases, its made-up vocabulary, and a whole run of few."""

import json
from pathlib import Path

import pytest

from agentrt.analysis.statistics import spread
from agentrt.base.errors import UsageError
from agentrt.cli.main import answer
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.vocabulary_file import vocabulary_file, vocabulary_from
from agentrt.lab.bench.structured.cases import (
    CaseText,
    ConstraintCase,
    cases_of,
    other_orders,
    with_whole_numbers,
    written,
)
from agentrt.lab.bench.structured.figures import coverage
from agentrt.lab.bench.structured.measure import CaseReply
from agentrt.lab.bench.structured.vocabularies import made_up
from agentrt.structured.vocabulary import alphabet_of

DATA = Path(__file__).parents[2] / "structured" / "data"
QUICK = ["--vocabulary", "embedded", "--most", "12", "--quick"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_folder_is_read_as_constraints_with_their_texts() -> None:
    cases = cases_of(DATA)
    groups = {case.group for case in cases}
    assert groups == {"own", "suite", "suite optional", "regex", "grammar"}
    assert all(case.texts for case in cases)
    lines = sum(len((DATA / name).read_text("utf-8").splitlines()) for name in FILES)
    assert sum(len(case.texts) for case in cases if case.kind != "grammar") == lines
    assert {case.kind for case in cases if case.group == "own"} == {"json", "pattern"}


FILES = ("own_cases.jsonl", "suite_cases.jsonl", "regex_cases.jsonl")


def test_a_folder_without_cases_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["bench", "structured", "--data", str(tmp_path)]) == 2
    assert "no cases in" in capsys.readouterr().err
    for name, line in (
        ("own_cases.jsonl", "{}"),
        ("own_cases.jsonl", '{"schema": {}}'),
        ("suite_cases.jsonl", '{"id": 1, "schema": {}, "instance": 1, "valid": true}'),
        ("regex_cases.jsonl", '{"pattern": "a", "text": "a"}'),
        ("regex_cases.jsonl", '{"pattern": ["a"], "text": "a", "match": true}'),
    ):
        (tmp_path / name).write_text(f"{line}\n", "utf-8")
        with pytest.raises(UsageError, match=f"{name}, line 1, is no case. A JSON object with"):
            cases_of(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "regex_cases.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"regex_cases\.jsonl cannot be read"):
        cases_of(tmp_path)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--vocabulary", "huge"], "--vocabulary huge is not known"),
        (["--peer", "vllm"], "--peer vllm is not known"),
        (["--most", "-1"], "--most -1 is out of range"),
    ],
)
def test_a_wrong_flag_is_told(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(["bench", "structured", "--data", str(DATA), *flags]) == 2
    assert said in capsys.readouterr().err


def test_masks_are_compared_with_those_of_the_library_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "masks.json"
    flags = ["--data", str(DATA), *QUICK, "--masks", "--json", str(path)]
    assert answer(["bench", "structured", *flags]) == 0
    said = capsys.readouterr().out
    assert "embedded, first walks," in said
    assert "embedded, again walks," in said
    (found,) = json.loads(path.read_text("utf-8"))["results"]
    for when in ("first", "again"):
        assert found[when]["ours"]["count"] == found[when]["alone"]["count"] > 20
        assert found[when]["ratio"]["p50"] == pytest.approx(
            found[when]["ours"]["p50"] / found[when]["alone"]["p50"]
        )
    assert found["again"]["ours"]["p99"] <= found["first"]["ours"]["p99"]


def test_orders_are_all_but_the_given_one() -> None:
    assert other_orders({"a": {"c": 1, "d": 2}, "b": 3}) == [
        '{"a":{"d":2,"c":1},"b":3}',
        '{"b":3,"a":{"c":1,"d":2}}',
        '{"b":3,"a":{"d":2,"c":1}}',
    ]
    assert other_orders([1, "a"]) == []
    assert written(with_whole_numbers({"a": [1.0, 1.5, "1.0"]})) == '{"a":[1,1.5,"1.0"]}'


def test_faults_are_told_from_what_is_excused() -> None:
    """A false accept and a refusal count; another order of keys and a failure are told apart."""
    texts = (CaseText("1", True), CaseText("2", False), CaseText("3", True), CaseText("4", True))
    case = ConstraintCase("one", "own", "json", {}, texts)
    walks = [{"taken": taken} for taken in (True, True, False, False)]
    told = CaseReply(case, {"walks": walks}, excused={2: "order of keys", 3: ""})
    found = coverage([told, CaseReply(case, {"refused": "x"}), CaseReply(case, {"failed": "y"})])
    assert (found["cases"], found["compiled"], found["failed"]) == (3, 1, 1)
    assert (found["false_accepts"], found["invalid_texts"], found["right"]) == (1, 1, 1)
    assert found["valid_refused"] == {"order of keys": 1, "no excuse": 1}
    assert found["faults"] == ["one took 2", "one refused 4"]


def test_percentiles_are_values_that_were_measured() -> None:
    found = spread([float(n) for n in range(200)])
    assert found == {"count": 200, "p50": 100.0, "p99": 198.0, "max": 199.0}
    assert spread([]) == {}


def test_a_vocabulary_is_made_up_from_its_seed() -> None:
    """Any text is spelled by it and read back; the same seed makes the same one."""
    vocab = made_up(5000)
    assert vocab.size == 5000
    assert len(set(vocab.token_bytes)) == 5000
    assert made_up(5000).fingerprint == vocab.fingerprint != made_up(5000, seed=1).fingerprint
    alphabet = alphabet_of(vocab)
    for text in ('{"name":"the 1234 <|end|>"}', "Größe 価格 \x00\U0001f600", "  \n\t x"):
        ids = alphabet.tokenize(text.encode())
        assert alphabet.bytes_of(ids) == text.encode()
    assert len(alphabet.tokenize(b'{"name":"the end"}')) <= 12
    again = vocabulary_from(vocabulary_file(vocab))
    assert again.token_bytes == vocab.token_bytes
    assert again.fingerprint == vocab.fingerprint


@pytest.mark.slow
def test_a_run_prints_tables_and_writes_every_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / "bench.json"
    flags = ["bench", "structured", "--data", str(DATA), *QUICK, "--json", str(path)]
    assert answer(flags) == 0
    told = capsys.readouterr().out
    assert "false accepts" in told
    assert "closing within min+1" in told
    found = json.loads(path.read_text("utf-8"))
    (result,) = found["results"]
    figures = result["figures"]
    assert sum(row["cases"] for row in figures["coverage"].values()) == 12
    assert not any(row["false_accepts"] for row in figures["coverage"].values())
    for row in figures["closing"]["by_budget"].values():
        assert row["outputs"] == row["valid"] > 0
    (samples,) = map(json.loads, path.with_suffix(".samples.jsonl").read_text("utf-8").splitlines())
    masks = [len(w["wall_ns"]) for c in samples["cases"] for w in c.get("walks", ())]
    counted = sum(one["wall"]["count"] for one in figures["mask_us"].values() if one["wall"])
    assert sum(masks) == counted > 0


@pytest.mark.slow
def test_peers_judge_the_same_texts(tmp_path: Path) -> None:
    files = peer_files()
    if not list((files.root / "venv").glob("lib/*/site-packages/xgrammar")):
        pytest.skip("no xgrammar: run `make peers`")
    path = tmp_path / "bench.json"
    flags = ["bench", "structured", "--data", str(DATA), *QUICK, "--json", str(path)]
    assert answer([*flags, "--peer", "xgrammar", "--peer", "outlines-core"]) == 0
    results = json.loads(path.read_text("utf-8"))["results"]
    assert [one["library"] for one in results] == ["agentrt", "xgrammar", "outlines-core"]
    for one in results:
        assert sum(row["right"] for row in one["figures"]["coverage"].values()) > 0


def test_peers_that_were_not_made_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTRT_PEERS", str(tmp_path))
    flags = ["bench", "structured", "--data", str(DATA), "--peer", "xgrammar"]
    assert answer(flags) == 2
    assert "make peers" in capsys.readouterr().err

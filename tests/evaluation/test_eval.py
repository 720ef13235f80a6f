"""`agentrt eval`: a planted fall is found, an equal pair passes, and a cut-off one goes on."""

import json
from pathlib import Path

import pytest

from agentrt import embedded
from tests.evaluation.conftest import OWN_SUITE, Command
from tests.evaluation.packed_model import write_packed
from tests.syntax import ROOT

SUITE = ROOT / "examples" / "suites" / "extraction"
CASES = (
    {"id": "a", "inputs": {"text": "one"}, "expected": ["yes", "one"]},
    {"id": "b", "inputs": {"text": "two"}, "expected": ["yes", "three"]},
    {"id": "c", "inputs": {"text": "four", "fail": True}, "expected": []},
)


@pytest.fixture
def own_suite(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "pick.py").write_text(OWN_SUITE)
    (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES))
    (folder / "suite.toml").write_text('program = "pick.py"\ncases = "cases.jsonl"\n')
    return folder


def damaged(folder: Path) -> Path:
    """A copy of the embedded model in which the matrices of one layer have two bits a value."""
    from safetensors.torch import load_file, save_file

    folder.mkdir()
    for file in embedded.path().iterdir():
        if file.suffix in (".json", ".jinja"):
            (folder / file.name).write_bytes(file.read_bytes())
    weights = load_file(embedded.path() / "model.safetensors")
    for name, values in weights.items():
        if name.startswith("model.layers.2.") and values.dim() == 2:
            groups = values.float().view(values.shape[0], -1, 32)
            scale = groups.abs().amax(-1, keepdim=True) / 2
            coarse = (groups / scale).round().clamp(-2, 1) * scale
            weights[name] = coarse.view(values.shape).to(values.dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.usefixtures("_native")
def test_a_packed_layer_with_two_bits_is_found_and_an_equal_pair_passes(
    evaluate: Command, tmp_path: Path
) -> None:
    damaged(tmp_path / "worse")
    (tmp_path / "packed.toml").write_text('weights = "int8"\n')
    (tmp_path / "coarse.toml").write_text('model = "worse"\nweights = "int8"\n')
    (tmp_path / "same.toml").write_text('weights = "int8"\nmax_running = 8\n')
    gate = ("--fail-if", "score<-1%", "--fail-if", "fidelity<-5%", "--json", "told.json")
    code, out, _ = evaluate(str(SUITE), "--configs", "packed.toml,coarse.toml", *gate)
    told = json.loads(Path("told.json").read_text())
    change = told["configs"][1]["against_first"]["changes"]["fidelity"]
    assert code == 6, out
    assert change["high"] < -0.05, out  # a dozen cases tell changed answers, not yet worse ones
    assert "crossed: coarse: fidelity<-5%" in out
    code, out, _ = evaluate(str(SUITE), "--configs", "packed.toml,same.toml", *gate)
    told = json.loads(Path("told.json").read_text())
    assert (code, told["crossed"]) == (0, [])
    assert told["configs"][1]["figures"]["fidelity"] == 1
    assert told["configs"][1]["against_first"]["mcnemar_p"] == 1


def test_counts_passes_and_errors(evaluate: Command, own_suite: Path) -> None:
    code, out, _ = evaluate(str(own_suite), "--json", "told.json", "--html", "told.html")
    told = json.loads(Path("told.json").read_text())
    assert code == 0
    assert "33.3% (6.1% to 79.2%)" in out
    raised = "embedded: 1 of 3 runs raised, c first: ValueError: as asked"
    assert raised in out
    assert raised in Path("told.html").read_text()
    assert [row["passed"] for row in told["results"]] == [True, False, False]
    assert told["results"][2]["error"].startswith("ValueError: as asked")
    assert told["configs"][0]["errors"] == 1
    assert "https://" not in Path("told.html").read_text()


def test_what_cannot_be_read_ends_it_before_any_case_runs(
    evaluate: Command, own_suite: Path
) -> None:
    Path("cut.gguf").write_bytes(b"GGUF")
    Path("routed.toml").write_text('expert_routing = "best"\n')
    Path("bound.toml").write_text('expert_memory = "lots"\n')
    for argv, code, words in (
        (["--configs", "embedded,cut.gguf"], 3, "cut.gguf is no whole GGUF file"),
        (["--configs", "embedded,none.toml"], 2, "there is no file none.toml"),
        (["--configs", "embedded,routed.toml"], 2, "expert_routing='best' is unknown"),
        (["--configs", "embedded,bound.toml"], 2, "lots is no size of memory"),
        (["--judge", "embedded"], 2, "--judge embedded: the suite has no judge"),
    ):
        told = evaluate(str(own_suite), *argv)
        assert (told[0], told[1]) == (code, "")
        assert told[2].startswith("error: ")
        assert words in told[2]


def test_an_absolute_limit_needs_no_second_configuration(
    evaluate: Command, own_suite: Path
) -> None:
    assert evaluate(str(own_suite), "--fail-if", "accuracy<50%")[0] == 6
    assert evaluate(str(own_suite), "--fail-if", "accuracy<30%")[0] == 0
    assert evaluate(str(own_suite), "--limit", "1", "--fail-if", "accuracy<99%")[0] == 0


def test_goes_on_with_what_is_there(evaluate: Command, own_suite: Path) -> None:
    assert evaluate(str(own_suite), "--resume", "rows.jsonl")[0] == 0
    rows = Path("rows.jsonl").read_bytes().splitlines(keepends=True)
    assert len(rows) == 1 + len(CASES)
    kept = json.loads(rows[1]) | {"latency_s": 77.0}
    Path("rows.jsonl").write_bytes(rows[0] + json.dumps(kept).encode() + b"\n" + rows[2][:9])
    evaluate(str(own_suite), "--resume", "rows.jsonl", "--json", "told.json")
    found = json.loads(Path("told.json").read_text())["results"]
    assert sorted(row["case"] for row in found) == ["a", "b", "c"]
    assert max(row["latency_s"] for row in found) == 77.0
    assert len(Path("rows.jsonl").read_bytes().splitlines()) == 1 + len(CASES)
    (own_suite / "suite.toml").write_text(
        'program = "pick.py"\ncases = "cases.jsonl"\n[[scorers]]\nkind = "set"\n'
    )
    code, _, err = evaluate(str(own_suite), "--resume", "rows.jsonl")
    assert code == 2
    assert "suite differs" in err


def test_an_added_configuration_runs_alone(evaluate: Command, own_suite: Path) -> None:
    Path("narrow.toml").write_text("max_running = 8\n")
    assert evaluate(str(own_suite), "--resume", "rows.jsonl")[0] == 0
    before = Path("rows.jsonl").read_text()
    both = ("--configs", "embedded,narrow.toml", "--resume", "rows.jsonl", "--json", "told.json")
    assert evaluate(str(own_suite), *both)[0] == 0
    rows = Path("rows.jsonl").read_text()
    assert rows.startswith(before)
    added = [json.loads(line) for line in rows.removeprefix(before).splitlines()]
    assert [list(one) for one in added[:1]] == [["evaluation"]]
    assert [one["config"] for one in added[1:]] == ["narrow"] * len(CASES)
    figures = [
        one["figures"]["accuracy"] for one in json.loads(Path("told.json").read_text())["configs"]
    ]
    assert figures == [1 / 3, 1 / 3]
    evaluate(str(own_suite), *both)
    assert Path("rows.jsonl").read_text() == rows
    Path("narrow.toml").write_text("max_running = 9\n")
    code, _, err = evaluate(str(own_suite), *both)
    assert (code, "config narrow differs" in err) == (2, True)


def test_results_of_other_weights_are_not_taken(
    evaluate: Command, own_suite: Path, tmp_path: Path
) -> None:
    model = damaged(tmp_path / "model")
    argv = (str(own_suite), "--configs", str(model), "--resume", "rows.jsonl")
    assert evaluate(*argv)[0] == 0
    assert evaluate(*argv)[0] == 0
    weights = model / "model.safetensors"
    weights.write_bytes((embedded.path() / "model.safetensors").read_bytes())
    code, _, err = evaluate(*argv)
    assert (code, f"config {model} differs" in err) == (2, True)


@pytest.mark.usefixtures("_native")
def test_a_gguf_file_is_a_configuration(evaluate: Command, own_suite: Path, tmp_path: Path) -> None:
    write_packed(tmp_path / "packed.gguf")
    code, out, err = evaluate(str(own_suite), "--configs", "packed.gguf,packed")
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["packed.gguf", "packed"]
    code, out, err = evaluate(str(own_suite), "--configs", "absent.gguf")
    assert (code, out, "there is no file absent.gguf" in err) == (2, "", True)


def test_calls_of_tools_are_scored(evaluate: Command) -> None:
    suite = ROOT / "examples" / "suites" / "tool_calls"
    code, out, err = evaluate(str(suite), "--limit", "8", "--json", "told.json")
    assert code == 0, err
    (config,) = json.loads(Path("told.json").read_text())["configs"]
    assert config["errors"] == 0, out
    assert config["accuracy"]["value"] >= 0.75, out


def test_gsm8k_is_read_from_a_named_file(evaluate: Command, own_suite: Path) -> None:
    (own_suite / "pick.py").write_text(
        "from agentrt import program\n@program\nasync def pick(question: str) -> int:\n"
        "    return 1234\n"
    )
    (own_suite / "suite.toml").write_text(
        'program = "pick.py"\nformat = "gsm8k"\n[[scorers]]\nkind = "tolerance"\n'
    )
    rows = [{"question": "?", "answer": f"so\n#### {n}"} for n in ("1,234", "7")]
    Path("test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = evaluate(str(own_suite), "--cases", "test.jsonl")
    assert (code, "50.0%" in out) == (0, True)
    Path("test.jsonl").write_text('{"question": "?", "answer": "none"}\n')
    code, _, err = evaluate(str(own_suite), "--cases", "test.jsonl")
    assert code == 2
    assert "test.jsonl:1 is no problem of GSM8K" in err


@pytest.mark.parametrize(
    ("change", "argv", "part"),
    [
        ("", ("--configs", "embedded,"), "nothing at a comma"),
        ("", ("--configs", "embedded,embedded"), "two configurations are named"),
        ("", ("--configs", "absent.toml"), "there is no file absent.toml"),
        ("", ("--configs", "wrong.toml"), "did you mean 'max_running'?"),
        ("", ("--configs", "typed.toml"), "kv_pages='many' is no value"),
        ("", ("--configs", "adapted.toml"), "adapted.toml: adapters is no table of directories"),
        ("", ("--fail-if", "accuracy<-1%"), "compares with the first"),
        ("", ("--fail-if", "cost>1"), "needs prices in one currency"),
        ("judge = 1\n", (), "'judge' is no key of a suite"),
        ("[inputs]\ntxt = 1\n", (), "did you mean 'text'?"),
        ('[[scorers]]\nkind = "exact"\nfield = "a"\n', (), "has no field 'a'"),
        ('[[scorers]]\nkind = "function"\nfunction = "pick.py:no"\n', (), "no function 'no'"),
    ],
)
def test_bad_input_is_one_error(
    evaluate: Command, own_suite: Path, change: str, argv: tuple[str, ...], part: str
) -> None:
    Path("wrong.toml").write_text("max_runing = 1\n")
    Path("adapted.toml").write_text('adapters = "tone"\n')
    Path("typed.toml").write_text('kv_pages = "many"\n')
    with (own_suite / "suite.toml").open("a") as file:
        file.write(change)
    code, out, err = evaluate(str(own_suite), *argv)
    assert (code, out) == (2, "")
    assert part in err


def test_an_engine_that_is_away_is_no_wrong_answer(evaluate: Command, own_suite: Path) -> None:
    code, out, err = evaluate(str(own_suite), "--configs", "absent")
    assert code in (2, 3)
    assert (out, "absent" in err) == ("", True)

"""Wrong flags of `agentrt bench` and `agentrt sim`: one error, before anything is written."""

import json
from pathlib import Path
from typing import Annotated, get_type_hints

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.cli.main import answer
from agentrt.lab.bench.flags import COMPOUND_FILE, GPU_FILE, CompoundFlags
from agentrt.lab.bench.fleet.flags import FLEET_FILE
from agentrt.lab.commands import bench as bench_commands
from agentrt.lab.commands import sim as sim_commands
from agentrt.lab.flag_rules import check_flags, rules_of
from agentrt.lab.flags import factors, names, numbers, rate_factors
from agentrt.lab.number_bounds import NumberBounds
from agentrt.lab.path_rules import input_folder, output_file
from agentrt.lab.result_file import machine
from agentrt.lab.resumed_file import ResumedFile
from agentrt.lab.sim.flags import PREDICTION_FILE

CASES = """
compound --draws 0 | --draws 0 is out of range
compound --plays 99999999 | --plays 99999999 is out of range
compound --tenants 0 | --tenants 0 is out of range
compound --programs -1 | --programs -1 is out of range
compound --slowdown 1 | --slowdown 1.0 is out of range
compound --slowdown nan | --slowdown nan is out of range
compound --kv-share inf | --kv-share inf is out of range
compound --load open --factors 0.5,nan | --factors nan is out of range
compound --load open --factors , | --factors , is no list of numbers
compound --rate -1 | --rate -1 is no rate
compound --rate nan | --rate nan is no rate
compound --dtype float64 | --dtype float64 is not known
compound --policy fastest | there is no policy 'fastest'
compound --policy rwa,rwa | names a policy twice
compound --arms agentrt,, | --arms has an empty name
compound --shape huge | there is no shape 'huge'
compound --shape micro --scale output=2,output=3 | --scale output=2,output=3 gives a factor twice
compound --shape micro --scale output=nan | the scale output=nan is out of range
compound --busy perhaps | perhaps
compound --data none | --data none: there is no such folder
compound --data FILE | is a file
compound --live none | --live none: there is no such folder
compound --live FOLDER | has none of finance.py
compound --html FOLDER | is a folder
compound --json FILE/a.json | is no folder
fleet --replicas 0 | --replicas 0 is out of range
fleet --replicas 2000 | --replicas 2000 is out of range
fleet --requests 0 | --requests 0 is out of range
fleet --programs 0 | --programs 0 is out of range
fleet --draws 0 | --draws 0 is out of range
fleet --plays -2 | --plays -2 is out of range
fleet --first-rate 0 | --first-rate 0.0 is out of range
fleet --slowdown 0.5 | --slowdown 0.5 is out of range
fleet --widths 8,-1 | --widths -1 is out of range
fleet --widths 8,,16 | --widths 8,,16 is no list
fleet --rate much | --rate much is no rate
fleet --rate inf | --rate inf is out of range
fleet --dtype int4 | --dtype int4 is not known
fleet --busy perhaps | perhaps
fleet --shape huge | there is no shape 'huge'
fleet --resume FOLDER | is a folder
sessions --slots 0 | --slots 0 is out of range
sessions --kv-tokens 0 | --kv-tokens 0 is out of range
sessions --window 10 | --window 10 is out of range
sessions --speed 0 | the SLO
sessions --rate , | --rate , is no list of rates
sessions --trace drawn,mini | drawn goes with no other
sessions --scale output=0.1 | --scale is for drawn sessions
sessions --trace drawn --scale loudness=2 | --scale loudness is not known
sessions --shape huge | there is no shape 'huge'
sessions --engine ftp://host | is not the address of an engine
sessions --engine own,own, | --engine has an empty name
fleet --scale loudness=2 | --scale loudness is not known
sessions --codec none | --codec none: there is no such folder
sessions --api-key env:AGENTRT_NO_SUCH_KEY | holds no API key
drafts --new 15 | --new 15 is out of range
drafts --prompt 0 | --prompt 0 is out of range
drafts --batch 0 | --batch 0 is out of range
drafts --repeat 0 | --repeat 0 is out of range
drafts --dtype int4 | --dtype int4 is not known
drafts --draft-model FILE | is a file
drafts --shape micro --text copy, | --text has an empty name
experts --others sideways | --others sideways is not known
experts --batch 0 | --batch 0 is out of range
experts --batch x | --batch x is no list of whole numbers
experts --batch 1000000 | --batch 1000000 is out of range
experts --prompt 0 | --prompt 0 is out of range
experts --prompt 40000 | do not fit the 32768 of mixtral-fine
experts --new 1 | --new 1 is out of range
experts --repeat 0 | --repeat 0 is out of range
experts --memory nan | --memory 'nan' is no size
adapters --adapters 1 | --adapters 1 is out of range
adapters --rank 0 | --rank 0 is out of range
adapters --rank 1000000 | --rank 1000000 is out of range
adapters --batch 0 | --batch 0 is out of range
adapters --prompt 0 | --prompt 0 is out of range
adapters --repeat 0 | --repeat 0 is out of range
engine --batch 0 | --batch 0 is out of range
engine --prompt 0 | --prompt 0 is out of range
engine --shared -1 | --shared -1 is out of range
engine --new 1 | --new 1 is out of range
engine --repeat 0 | --repeat 0 is out of range
engine --weights int3 | --weights int3 is not known
serve --pairs 0 | --pairs 0 is out of range
serve --clients 1000000 | --clients 1000000 is out of range
serve --seconds 0 | --seconds 0 is out of range
serve --parts health,naps | --parts naps is not known
structured --data FILE | is a file
structured --data none | --data none: there is no such folder
structured --data FOLDER --patience 0 | --patience 0.0 is out of range
structured --data FOLDER --patience nan | --patience nan is out of range
structured --data FOLDER --vocabulary embedded,huge | --vocabulary huge is not known
structured --data FOLDER --json taken.json | taken.samples.jsonl: is a folder
gpu --json FILE/gpu.json | is no folder
gpu --json FOLDER | is a folder
gpu --json gpu.json --parts speeds | --parts speeds is not known
gpu --json gpu.json --parts speed, | --parts has an empty name
gpu --json gpu.json --rehearse --resume --parts sped | did you mean speed?
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a file and a folder, whose cache and peers are empty as well."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AGENTRT_PEERS", str(tmp_path / "peers"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("{}", "utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken.samples.jsonl").mkdir()
    return tmp_path


def everything(place: Path) -> dict[str, str]:
    """Files and folders below a place, and the text of each file."""
    return {
        str(path.relative_to(place)): path.read_text("utf-8") if path.is_file() else ""
        for path in place.rglob("*")
    }


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_one_error_names_the_flag_before_anything_is_written(
    case: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(place)
    command, _, said = case.partition(" | ")
    words = command.replace("FILE", "file").replace("FOLDER", "folder").split()
    assert answer(["bench", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err
    assert told.err.count("error") == 1, told.err
    assert everything(place) == before


RESUMED = {
    "compound": (["bench", "compound", "--resume", "it.json"], COMPOUND_FILE),
    "load": (["bench", "compound", "--load", "open", "--resume", "it.json"], COMPOUND_FILE),
    "fleet": (["bench", "fleet", "--resume", "it.json"], FLEET_FILE),
    "predict": (["sim", "predict", "--costs", "half-cpu", "--resume", "it.json"], PREDICTION_FILE),
    "gpu": (["bench", "gpu", "--rehearse", "--json", "it.json", "--resume"], GPU_FILE),
}


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("content", ["", "[]", "null", "\x00", '{"schema": "agentrt.run/1"}'])
def test_a_foreign_file_is_no_file_to_go_on_with(
    name: str, content: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, file = RESUMED[name]
    (place / "it.json").write_text(content, "utf-8")
    before = everything(place)
    assert answer(words) == 2
    told = capsys.readouterr().err
    assert "it.json" in told
    assert file.hint in told
    assert everything(place) == before


@pytest.mark.parametrize("name", ["compound", "load", "gpu"])
@pytest.mark.parametrize(
    "rest", ["", ', "identity": 1, "parts": 1', ', "identity": {}, "parts": {}']
)
def test_a_damaged_file_is_no_file_to_go_on_with(
    name: str, rest: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, file = RESUMED[name]
    (place / "it.json").write_text(f'{{"schema": "{file.schema}"{rest}}}', "utf-8")
    before = everything(place)
    assert answer(words) == 2
    assert "it.json is damaged: " in capsys.readouterr().err
    assert everything(place) == before


@pytest.mark.parametrize("name", ["compound", "load"])
def test_plays_of_other_code_are_refused_before_weights_are_written(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = machine()
    del here["load_average"]
    identity = {"machine": here, "code": "older", "threads": 0, "seed": 0, "texts": "", "load": ""}
    content = {"schema": COMPOUND_FILE.schema, "identity": identity}
    (place / "it.json").write_text(json.dumps(content), "utf-8")
    before = everything(place)
    assert answer([*RESUMED[name][0], "--shape", "micro"]) == 2
    assert "it.json: code differs from earlier plays: older there" in capsys.readouterr().err
    assert everything(place) == before


def test_what_a_reader_stumbles_over_is_a_damage_of_the_file(tmp_path: Path) -> None:
    path, file = tmp_path / "it.json", ResumedFile("s/1", "Take another")
    path.write_text('{"schema": "s/1", "plays": [1]}', "utf-8")
    assert file.read(path, lambda found: found["plays"]) == [1]
    with pytest.raises(UsageError, match=r"it\.json is damaged: KeyError: 'arms'\. Take another"):
        file.read(path, lambda found: found["arms"])


@record
class Asked:
    """Flags of these tests.

    Attributes:
        many: A number with bounds.
        sizes: A list.
        folder: A folder.
        plain: A number without bounds of its own.
    """

    many: Annotated[int, NumberBounds(2, 8).check] = 2
    sizes: Annotated[str, numbers] = "1"
    folder: Annotated[Path | None, input_folder] = None
    plain: int = 0


def test_rules_are_those_of_the_types_and_what_was_not_given_has_none(tmp_path: Path) -> None:
    assert [
        len(rules_of(hint)) for hint in get_type_hints(Asked, include_extras=True).values()
    ] == [*(1, 1, 1, 0)]
    check_flags(Asked(folder=tmp_path))
    for wrong, said in (
        (Asked(many=9), "--many 9 is out of range. Give 2 to 8"),
        (Asked(sizes="1;2"), "--sizes 1;2 is no list"),
        (Asked(folder=tmp_path / "none"), "there is no such folder"),
        (Asked(plain=-1), "--plain -1 is out of range"),
    ):
        with pytest.raises(UsageError, match=said):
            check_flags(wrong)


def test_every_file_that_is_written_is_checked_first() -> None:
    seen = 0
    for module, commands in (
        (bench_commands, bench_commands.bench),
        (sim_commands, sim_commands.sim),
    ):
        for command in commands.registered_commands:
            flags = get_type_hints(getattr(module, str(command.name)))["flags"]
            for name, hint in get_type_hints(flags, include_extras=True).items():
                if name in ("json_path", "html_path", "out"):
                    seen += 1
                    assert output_file in rules_of(hint), f"{command.name} {name}"
    assert seen > 15


def test_defaults_keep_every_rule() -> None:
    check_flags(CompoundFlags())


def test_lists_hold_each_part_once() -> None:
    assert names("rwa, fcfs,rwa") == ("rwa", "fcfs")
    assert numbers("4,1,4", "--batch") == (4, 1)
    assert rate_factors("0.5,1,0.50", "--factors") == (0.5, 1.0)
    with pytest.raises(UsageError, match="--scale a=1,a=2 gives a factor twice"):
        factors("a=1,a=2", "--scale")


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", "utf-8")
    for path, said in ((file, "is a file"), (tmp_path / "none", "there is no such folder")):
        with pytest.raises(UsageError, match=f"--data .*: {said}. Give --data a folder"):
            input_folder(path, "--data")
    input_folder(tmp_path, "--data")

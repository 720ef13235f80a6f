"""`agentrt check`: a line for each fault, at its place, and the exit code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HEAD = """
import datetime
from typing import Literal
from pathlib import Path
from agentrt import ask, chat, choice, gather, json_schema, program, regex, tool
RULES = "Follow these rules. " * 30
CLERK = chat(system="Be brief.")
"""
FIRST = HEAD.count("\n") + 1
"""Line of what follows the head."""


@pytest.fixture
def check(
    inside: Callable[..., Any], program: Callable[..., Path]
) -> Callable[..., tuple[int, list[str]]]:
    """Checks a file with this code behind the head; gives the exit code and the findings."""

    def run(code: str, *flags: str, name: str = "job.py") -> tuple[int, list[str]]:
        program(HEAD + code, name)
        told = inside("check", name, *flags)
        assert told.err == "", told.err
        return told.code, told.out.splitlines()

    return run


def job(*body: str, of: str = "x: str", to: str = "str") -> str:
    lines = "".join(f"    {line}\n" for line in body)
    return f"@program\nasync def job({of}) -> {to}:\n{lines}"


Check = Callable[..., tuple[int, list[str]]]


def test_nothing_is_found_in_a_good_program(check: Check) -> None:
    good = job("return await CLERK.user(RULES, x).generate(Literal['a', 'b'])")
    assert check(good) == (0, ["job.py: nothing was found"])


ERRORS = {
    "a type that does not exist": (
        job("return ''", of="x: 'Missing'"),
        0,
        "error: a type in the signature of job cannot be read: name 'Missing' is not defined "
        "[signature]; fix: import what it names",
    ),
    "a regex that cannot be enforced": (
        job("a = CLERK.user(x)", "return await a.generate(regex(r'(a)\\1'))"),
        3,
        "error: regex '(a)\\\\1': backreferences are not supported [output]",
    ),
    "a schema that cannot be enforced": (
        job(
            "a = CLERK.user(x)",
            "return await a.generate(json_schema({'type': 'integer', 'not': {'multipleOf': 7}}))",
        ),
        3,
        "[output]",
    ),
    "a forgotten await": (
        job("return f'{CLERK.user(x).generate()}'"),
        2,
        "error: NotYetKnown: node 'str' is still pending and cannot be formatted into text [run]; "
        "fix: await it first",
    ),
    "a wrong option": (
        job("return await CLERK.user(x).generate(max_tokens=0)"),
        2,
        "[run]",
    ),
    "a parameter without a name": (job("return ''", of="*x: str"), 0, "[signature]"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(check: Check, name: str) -> None:
    code, line, what = ERRORS[name]
    status, found = check(code)
    assert status == 1
    assert len(found) == 1, found
    assert found[0].startswith(f"job.py:{FIRST + line}: error: ")
    assert what in found[0]


WARNINGS = {
    "a parameter without a type": (job("return x", of="x"), 0, "parameter `x` of job has no type"),
    "constant text behind a variable": (
        job("ask = CLERK.user(x, RULES)", "return await ask.generate()"),
        2,
        "`x` stands before 600 characters that are the same in every run",
    ),
    "in a message before": (
        job("ask = CLERK.user(x)", "return await ask.user(RULES).generate()"),
        2,
        "`x` stands before 600 characters",
    ),
    "in a field of text": (
        job("return await CLERK.user(f'Of {x}: {RULES}').generate()"),
        2,
        "`x` stands before 602 characters",
    ),
    "the time in the system message": (
        job("now = chat(system=f'{datetime.date.today()}')", "return await now.user(x).generate()"),
        2,
        "`datetime.date.today()` is another value in each run",
    ),
    "a failure with made-up answers": (
        job("return {'a': 'b'}[await CLERK.user(x).generate()]"),
        2,
        "with made-up answers job ends with KeyError: 'text'",
    ),
    "a loop without an end": (
        job("while True:", "    await CLERK.user(x).generate()"),
        3,
        "job did not end within 500 nodes",
    ),
    "an answer that its check refuses": (
        "from pydantic import BaseModel, model_validator\n"
        "class Long(BaseModel):\n    text: str\n"
        "    @model_validator(mode='after')\n    def checked(self) -> 'Long':\n"
        "        if len(self.text) < 9:\n            raise ValueError('too short')\n"
        "        return self\n"
        + job("return (await CLERK.user(x).generate(Long, check=True)).text"),
        10,
        "with made-up answers job ends with CheckFailed: ",
    ),
    "no room for an answer": (
        job("return await CLERK.user(x).generate(choice('a' * 30, 'b' * 40), max_tokens=2)"),
        2,
        "max_tokens leaves no room for the shortest answer",
    ),
    "a tool without a docstring": (
        "@tool\ndef look(x: str) -> str:\n    return x\n" + job("return await look(x)"),
        0,
        "tool look has no docstring",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(check: Check, name: str) -> None:
    code, line, what = WARNINGS[name]
    status, found = check(code)
    assert status == 0
    assert len(found) == 1, found
    assert found[0].startswith(f"job.py:{FIRST + line}: warning: {what}")


SILENT = {
    "an answer ends the shared prefix anyway": job(
        "turn = CLERK.user(x).generate()",
        "await turn",
        "return await turn.ctx.user(RULES).generate()",
    ),
    "short text": job("return await CLERK.user(x, ' is it so?').generate()"),
    "constants first": job(
        "more = RULES + 'And these.'", "return await CLERK.user(more, x, '!').generate()"
    ),
    "the time at the end": job("return await CLERK.user(x, f'{datetime.date.today()}').generate()"),
    "room in tokens, which are several bytes": job(
        "return await CLERK.user(x).generate(choice('a' * 30, 'b' * 40), max_tokens=8)"
    ),
    "what the scripted engine cannot do": job(
        "return await CLERK.user(x).generate(choice('a', 'b'), logprobs=2)"
    ),
    "a default that no flag can give": job("return ''", of="x: object = None"),
    "each kind of output": job(
        "a = CLERK.user(x)",
        "n = await a.generate(int)",
        "m = [i async for i in a.each(int, max_items=2)]",
        "c = await a.generate(choice('yes', 'no'))",
        "sure = await ask(bool, 'Sure?')",
        "return f'{n} {m} {c} {sure}'",
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_no_finding(check: Check, name: str) -> None:
    status, found = check(SILENT[name])
    assert status == 0
    assert [line for line in found if ": note: " not in line] in ([], ["job.py: nothing was found"])


def test_a_tool_that_writes_is_not_called(check: Check, tmp_path: Path) -> None:
    pay = (
        "@tool(effects='write')\ndef pay(cents: int) -> int:\n    'Pay.'\n"
        "    Path('paid').touch()\n    return cents\n"
    )
    code = pay + job("return str(1 + await pay(3))")
    assert check(code) == (0, ["job.py: nothing was found"])
    assert not (tmp_path / "paid").exists()
    status, found = check(code.replace("'write'", "'idempotent'"))
    assert status == 0
    assert "note: job was not run: its tool pay may change something" in found[0]
    assert not (tmp_path / "paid").exists()


def test_an_argument_that_is_bound_needs_no_schema(check: Check) -> None:
    client = "class Client:\n    pass\n"
    look = "@tool(effects='pure')\ndef look(n: int, client: Client) -> int:\n"
    look += "    'Look.'\n    return n\n"
    body = (
        "plan = CLERK.user(x).calls(look.bind(client=Client()))",
        "facts = [call.start() async for call in plan]",
        "return str(sum(await gather(*facts)))",
    )
    assert check(client + look + job(*body)) == (0, ["job.py: nothing was found"])
    status, found = check(client + look + job("return str(await look(1, Client()))"))
    assert status == 1
    assert "the type of parameter client has no JSON form [tool]" in found[0]


def test_a_plan_of_calls_is_made_up_too(check: Check) -> None:
    tools = "@tool(effects='pure')\ndef double(n: int) -> int:\n    'Twice n.'\n    return 2 * n\n"
    body = (
        "plan = CLERK.user(x).calls(double)",
        "facts = [call.start() async for call in plan]",
        "return str(sum(await gather(*facts)))",
    )
    assert check(tools + job(*body)) == (0, ["job.py: nothing was found"])


def test_a_run_can_be_left_out_or_given_arguments(check: Check) -> None:
    code = job("return {'a': 'b'}[x]")
    assert check(code)[1][0].count("KeyError") == 1
    assert check(code, "--no-run") == (0, ["job.py: nothing was found"])
    assert check(code, "--args", '{"x": "a"}') == (0, ["job.py: nothing was found"])


def test_all_programs_of_a_file_or_one(check: Check, inside: Callable[..., Any]) -> None:
    two = job("return x", of="x") + job("return x", of="y").replace("job", "other")
    assert len(check(two)[1]) == 3  # the other one does not know its x
    assert len(inside("check", "job.py:job").out.splitlines()) == 1
    told = inside("check", "job.py:jbo")
    assert told.code == 2
    assert "job.py:job" in told.lines[2]


def test_a_file_that_cannot_be_loaded(check: Check, inside: Callable[..., Any]) -> None:
    status, found = check("def (\n")
    assert status == 1
    assert found[0].startswith(f"job.py:{FIRST}: error: ")
    assert found[0].count("[load]") == 1
    status, found = check("import not_there\n")
    assert status == 1
    assert found[0].endswith("[load]; fix: python job.py shows the traceback"), "check has no -v"
    status, found = check("@tool\ndef look(x):\n    return x\n")
    assert status == 1
    assert "[load]" in found[0]


def test_a_file_without_a_program_is_a_finding_and_a_wrong_name_is_none(
    check: Check, inside: Callable[..., Any]
) -> None:
    assert check("x = 1\n") == (
        1,
        ["job.py: error: job.py has no program [load]; fix: mark an async function with @program"],
    )
    told = inside("check", "job.py", "--json")
    assert (told.code, told.json["ok"], told.json["findings"][0]["rule"]) == (1, False, "load")
    for wrong in (("job.py:job",), ("absent.py",), (".",), ("job.py", "--args")):
        told = inside("check", *wrong)
        assert (told.code, told.out) == (2, ""), wrong


def test_findings_as_data(inside: Callable[..., Any], program: Callable[..., Path]) -> None:
    program(HEAD + job("return f'{CLERK.user(x).generate()}'"))
    told = inside("check", "job.py", "--json")
    assert told.code == 1
    assert told.json["schema"] == "agentrt.check/1"
    assert told.json["ok"] is False
    (found,) = told.json["findings"]
    assert (found["file"], found["line"], found["rule"]) == ("job.py", FIRST + 2, "run")
    assert found["fix"].startswith("await it first")


def test_what_a_program_prints_is_no_finding(
    inside: Callable[..., Any], program: Callable[..., Path]
) -> None:
    program(HEAD + "print('loaded')\n" + job("print('run')", "return x"))
    told = inside("check", "job.py")
    assert told.out == "job.py: nothing was found\n"
    assert told.err == "loaded\nrun\n"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "programs").glob("[!_]*.py")), ids=lambda path: path.stem
)
def test_programs_of_this_repository_have_no_faults(
    inside: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    if "@program" in path.read_text():
        assert "error" not in inside("check", str(path)).out

"""Answers of real servers, recorded from them, are read and counted right."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.analysis.model_shape import ModelShape
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.llama_server import llama_search
from agentrt.lab.arms.openvino_server import openvino_search
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.plan_search import PlanChange, PlanSearch
from agentrt.lab.arms.program_arm import client_arm, play
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.arms.vllm_server import vllm_search
from agentrt.lab.arms.wire import NodeLine
from agentrt.lab.bench.compound.best_plan import open_best, tried_plans
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.errors import BenchFailed
from tests.lab.arms import recorded_server
from tests.lab.arms.made_programs import ASK, call, program, tool

SEARCHES = {"llama-server": llama_search, "vllm": vllm_search, "openvino": openvino_search}
CACHED = {"llama-server": 83, "vllm": 64, "openvino": None}
COUNTS = {
    "llama-server": {"prompt_tokens": 92, "steps": 43},
    "vllm": {"prompt_tokens": 149, "steps": 43},
    "openvino": {"steps": 48},
}
WORDS = " mbj" * 12


class UnconvertedFiles(PeerFiles):
    """Files of which none is converted for a server that is not there."""

    def gguf(self, shape: ModelShape, dtype: str, folder: Path | None = None) -> Path:
        """A name."""
        return Path("model.gguf")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = tmp_path_factory.mktemp("models")
    return Served(checkpoint(SHAPES["micro"], folder=folder), "bfloat16", slots=2, kv_tokens=1024)


@pytest.fixture(scope="module")
def files(served: Served, tmp_path_factory: pytest.TempPathFactory) -> PeerFiles:
    """Of a machine without peers; a program that says its version is all that plans run."""
    root = tmp_path_factory.mktemp("no-peers")
    program = root / "llama.cpp" / "bin" / "llama-server"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho version: 1\n")
    program.chmod(0o755)
    return UnconvertedFiles(root, served.model)


def recorded(plan: ServerPlan) -> ServerPlan:
    """A plan with the recorded server in place of the real one."""
    return replace(plan, command=(sys.executable, recorded_server.__file__, plan.kind, "{port}"))


@pytest.fixture(params=list(SEARCHES))
def search(request: pytest.FixtureRequest, served: Served, files: PeerFiles) -> PlanSearch:
    return SEARCHES[request.param](served, files, [1, 2])


@pytest.fixture
def server(search: PlanSearch) -> Iterator[ServerProcess]:
    opened = ServerProcess(recorded(search.plans[0]))
    yield opened
    opened.close()


def test_a_server_says_what_it_counts(server: ServerProcess) -> None:
    kind = server.plan.kind
    assert server.counts() == COUNTS[kind]
    client = ArmProcess(
        client_arm("asyncio", server.plan, PeerFiles(Path(), Path())), server=server
    )
    try:
        assert client.server_counts() == COUNTS[kind]
    finally:
        client.close()


def test_answers_are_read_whole_and_in_pieces(server: ServerProcess, files: PeerFiles) -> None:
    plan = call("plan", ASK, tokens=12)
    early: NodeLine = {**tool("early", " d", "plan"), "plan": "plan", "at_token": 2}
    whole = call("whole", ASK, tokens=12)
    client = ArmProcess(client_arm("asyncio", server.plan, files), server=server)
    try:
        (told,) = play(
            client, [program("made/0", [plan, early, whole], ["early", "whole"])]
        ).samples
    finally:
        client.close()
    facts = {one["name"]: one for one in told["calls"]}
    assert {one["output"] for one in facts.values()} == {WORDS}
    for one in facts.values():
        assert one["prompt_tokens"] == 84
        assert one["output_tokens"] == 12
        assert one["cached_tokens"] == CACHED[server.plan.kind]
    assert facts["plan"]["first_s"] is not None
    assert facts["whole"]["first_s"] is None


def test_a_form_goes_in_the_words_of_the_server(
    search: PlanSearch, server: ServerProcess, files: PeerFiles
) -> None:
    (change,) = search.changes[-1]
    plan = change.on(server.plan)
    formed: NodeLine = {**call("formed", ASK, tokens=6), "pattern": " aab baa( [a-z]{3}){4}"}
    client = ArmProcess(client_arm("asyncio", plan, files), server=server)
    try:
        (told,) = play(client, [program("made/0", [formed], ["formed"])]).samples
    finally:
        client.close()
    (one,) = told["calls"]
    assert one["output"].startswith(" aab baa mbj")
    assert one["output_tokens"] == 6


def test_a_request_that_is_refused_fails_the_arm(server: ServerProcess, files: PeerFiles) -> None:
    long = call("long", ("user", [{"text": " a" * (recorded_server.MOST_WORDS + 1)}]))
    client = ArmProcess(client_arm("asyncio", server.plan, files), server=server)
    try:
        with pytest.raises(BenchFailed, match=r"made/0: .*answered 400"):
            play(client, [program("made/0", [long], ["long"])])
    finally:
        client.close()


def test_a_change_with_which_a_server_does_not_start_is_noted(
    search: PlanSearch, files: PeerFiles
) -> None:
    plan = recorded(search.plans[0])
    refused = PlanChange("refused", ("--refused",))
    other = PlanChange("other", ("--other",))
    probe = program("made/0", [call("one", ASK, tokens=12)], ["one"])
    found = PlanSearch((plan,), ((refused, other),))
    server, tried = open_best(found, [probe], files, repeats=1)
    server.close()
    assert server.plan.variant in (plan.variant, f"{plan.variant}, other")
    facts = {one["variant"]: one for one in tried_plans(tried)}
    assert "unknown option" in facts[f"{plan.variant}, refused"]["failed"]
    assert [len(facts[name]["took_s"]) for name in (plan.variant, f"{plan.variant}, other")] == [
        1,
        1,
    ]
    bad = PlanSearch((refused.on(plan),), ((other,),))
    with pytest.raises(BenchFailed, match="unknown option"):
        open_best(bad, [probe], files, repeats=1)

"""Plain clients play programs against a real server, and servers are started, stopped and tried."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.base.segments import Close, Open, Text
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.peer_files import PeerFiles, peer_files
from agentrt.lab.arms.plan_search import PlanSearch
from agentrt.lab.arms.program_arm import client_arm, play
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.arms.servers import plans_of
from agentrt.lab.arms.wire import (
    CallLine,
    NodeLine,
)
from agentrt.lab.bench.compound.best_plan import open_best, started_by
from agentrt.lab.bench.compound.prompt_parity import chats_in, check_prompt_parity
from agentrt.lab.bench.compound.server_efficiency import ServerEfficiency, measure_efficiency
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.errors import BenchFailed
from agentrt.prompt import Codec
from tests.lab.arms.made_programs import ASK, CHAIN, TOO_LONG, VOTE, call, program, tool

PEERS = peer_files()
needs_llama = pytest.mark.skipif(
    not (PEERS.libraries / "llama-server").exists(), reason="`make peers` was not run"
)
needs_langgraph = pytest.mark.skipif(
    not list(PEERS.root.glob("venv/lib/*/site-packages/langgraph")), reason="no LangGraph"
)


@pytest.fixture(scope="module")
def served() -> Served:
    """The embedded model: it starts without transformers."""
    return Served(embedded.path(), "float32", slots=4, kv_tokens=32_768)


@pytest.fixture(scope="module")
def files(served: Served, tmp_path_factory: pytest.TempPathFactory) -> PeerFiles:
    """Of a machine without peers, so that the client runs in our own environment."""
    return PeerFiles(tmp_path_factory.mktemp("no-peers"), served.model)


@pytest.fixture(scope="module")
def server(served: Served, files: PeerFiles) -> Iterator[ServerProcess]:
    plan, *_ = plans_of("ours", served, files, cores=2)
    opened = ServerProcess(plan)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def player(server: ServerProcess, files: PeerFiles) -> Iterator[ArmProcess]:
    opened = ArmProcess(client_arm("asyncio", server.plan, files), server=server)
    yield opened
    opened.close()


def under_way(server: ServerProcess) -> int:
    server.resume()
    with urllib.request.urlopen(server.url.removesuffix("v1") + "health", timeout=60) as response:
        count: int = json.load(response)["under_way"]
        return count


def test_a_program_is_played_as_written(player: ArmProcess, served: Served) -> None:
    (told,) = play(player, [CHAIN]).samples
    calls = {one["name"]: one for one in told["calls"]}
    assert (calls["plan"]["output_tokens"], calls["end"]["output_tokens"]) == (6, 5)
    said = calls["plan"]["output"]
    codec = Codec.load(served.model)
    prompt = (
        *(Open("system"), Text(" be b"), Close(), Open("user"), Text(" a b c"), Close()),
        *(Open("assistant"), Text(said), Close(), Open("user"), Text(" d e g f"), Close()),
    )
    assert calls["end"]["prompt_tokens"] == len(codec.encode((), prompt).token_ids)
    waits = {one["name"]: one for one in told["waits"]}
    assert waits.keys() == {"look", "rest"}
    for wait in waits.values():
        assert calls["plan"]["ended_s"] <= wait["began_s"] <= wait["ended_s"]
        assert wait["ended_s"] <= calls["end"]["began_s"]
    assert told["ended_s"] >= calls["end"]["ended_s"]
    assert (told["arrived_s"], told["given_up"], told["error"]) == (0.0, [], "")


def test_programs_are_played_at_once(player: ArmProcess) -> None:
    programs = [CHAIN, {**CHAIN, "name": "chain/1"}, VOTE]
    told = play(player, programs).samples  # type: ignore[arg-type]
    assert [one["name"] for one in told] == ["chain/0", "chain/1", "vote/0"]
    assert told[0]["calls"][0]["output"] == told[1]["calls"][0]["output"]


PATTERN = " lamp( [a-z]{1,8}){6} desk"


def test_tools_begin_within_a_streamed_plan_that_has_a_form(player: ArmProcess) -> None:
    """The last argument of a tool is there long before the rest of the plan."""
    plan = {**call("plan", ASK, tokens=300)}
    early = {**tool("early", " d", "plan"), "plan": "plan", "at_token": 2}
    late = tool("late", " e", "plan")
    (told,) = play(player, [program("early/0", [plan, early, late], ["early", "late"])]).samples  # type: ignore[list-item]
    waits = {one["name"]: one for one in told["waits"]}
    (written,) = told["calls"]
    assert written["first_s"] is not None  # it was streamed
    assert waits["early"]["began_s"] < written["ended_s"] <= waits["late"]["began_s"]


def test_an_answer_is_held_to_its_form_by_a_server_that_takes_one(player: ArmProcess) -> None:
    held: CallLine = {**call("held", ASK, tokens=60), "pattern": PATTERN}
    (told,) = play(player, [program("held/0", [held], ["held"])]).samples
    (said,) = told["calls"]
    assert re.fullmatch(PATTERN, said["output"])


def test_a_client_has_no_more_requests_than_its_width(
    server: ServerProcess, files: PeerFiles
) -> None:
    """With one at a time, each answer is complete before the next one begins."""
    calls: list[NodeLine] = [call(f"call{at}", ASK, tokens=20) for at in range(4)]
    plans: list[NodeLine] = [
        {**tool(f"tool{at}", " a", f"call{at}"), "plan": f"call{at}", "at_token": 1}
        for at in range(4)
    ]
    wide = program("wide/0", [*calls, *plans], [node["name"] for node in plans])
    player = ArmProcess(client_arm("asyncio", replace(server.plan, width=1), files), server=server)
    try:
        (told,) = play(player, [wide]).samples
    finally:
        player.close()
    ended = sorted(told["calls"], key=lambda one: one["ended_s"])
    for one, after in pairwise(ended):
        assert after["first_s"] is not None
        assert one["ended_s"] <= after["first_s"]


@pytest.mark.parametrize("streams", [False, True])
def test_calls_that_are_not_needed_are_given_up(
    streams: bool, server: ServerProcess, files: PeerFiles
) -> None:
    plan = replace(server.plan, streams_what_may_end=streams)
    player = ArmProcess(client_arm("asyncio", plan, files), server=server)
    try:
        (told,) = play(player, [VOTE]).samples
    finally:
        player.close()
    assert told["given_up"] == ["voter2", "voter3"]
    assert sorted(one["name"] for one in told["calls"]) == ["voter0", "voter1"]
    assert all((one["first_s"] is not None) is streams for one in told["calls"])
    assert all(one["output_tokens"] == 4 for one in told["calls"])
    while under_way(server):  # the server hears of it
        pass


def test_a_program_that_fails_fails_the_arm(player: ArmProcess) -> None:
    with pytest.raises(BenchFailed, match=r"asyncio\+ours: long/0: .*answered 400.*window"):
        play(player, [TOO_LONG])


def test_a_server_has_to_read_as_we_do(
    server: ServerProcess, served: Served, tmp_path: Path
) -> None:
    codec = Codec.load(served.model)
    chats = chats_in([CHAIN, VOTE], 2)
    assert chats[0][1] == {"role": "user", "content": " a b c"}
    first, second = check_prompt_parity(server, codec, chats)
    assert (first.tokens, second.tokens) == (11, 7)
    other = Codec.load(checkpoint(SHAPES["micro"], folder=tmp_path, with_weights=False))
    with pytest.raises(BenchFailed, match="another tokenizer or template"):
        check_prompt_parity(server, other, [[{"role": "user", "content": " return"}]])


@pytest.mark.slow
def test_a_reach_is_measured_in_turns(
    player: ArmProcess, server: ServerProcess, served: Served, files: PeerFiles
) -> None:
    found = measure_efficiency(
        player, server.plan, served, files, prompt_tokens=8, lasts_s=1e-3, repeats=2
    )
    assert (found.batch, found.prompt_tokens, found.new_tokens) == (4, 12, 64)
    assert 2 <= len(found.direct_s) == len(found.served_s) <= 4
    longer = measure_efficiency(
        player, server.plan, served, files, prompt_tokens=8, batch=2, lasts_s=1e3, repeats=1
    )
    assert (longer.batch, longer.new_tokens) == (2, 512)


def test_a_server_below_the_limit_is_not_compared() -> None:
    good = ServerEfficiency("server", 4, 8, 4, (0.95, 0.5, 0.92), (1.0, 1.0, 1.0))
    assert good.holds
    low = replace(good, direct_s=(0.89, 2.0, 0.5))
    assert low.share == 0.89
    assert not low.holds


def test_a_share_near_the_limit_is_in_doubt_until_rounds_agree() -> None:
    doubtful = ServerEfficiency("server", 4, 8, 4, (0.95, 0.85, 0.92, 0.88), (1.0,) * 4)
    assert not doubtful.is_clear
    assert replace(doubtful, direct_s=(0.91, 0.95, 0.93, 0.97)).is_clear
    assert replace(doubtful, direct_s=(0.81, 0.85, 0.83, 0.87)).is_clear


@pytest.mark.slow
def test_the_best_way_to_start_is_kept(server: ServerProcess, files: PeerFiles) -> None:
    plans = [replace(server.plan, variant=name) for name in ("one", "other")]
    best, tried = open_best(PlanSearch(tuple(plans)), [CHAIN], files, repeats=1)
    try:
        assert [(one.variant, len(one.took_s)) for one in tried] == [("one", 1), ("other", 1)]
        assert best.plan.variant == min(tried, key=lambda one: one.took_s[0]).variant
        answer = best.complete([{"role": "user", "content": " a"}], 2)
        assert answer["usage"]["completion_tokens"] == 2
    finally:
        best.close()
        best.close()


def test_a_server_is_started_once_for_plans_that_differ_in_the_client(
    served: Served, files: PeerFiles
) -> None:
    plans = plans_of("ours", served, files, cores=2)
    assert [plan.width for plan in plans] == [0, 32, 16]
    assert len({started_by(plan) for plan in plans}) == 1
    other = replace(plans[0], env={"OMP_NUM_THREADS": "1"})
    assert started_by(other) != started_by(plans[0])


def test_a_server_that_does_not_start_says_why() -> None:
    command = (sys.executable, "-c", "raise SystemExit('no model, no service')")
    with pytest.raises(BenchFailed, match="ended with 1: no model, no service"):
        ServerProcess(ServerPlan("ours", "", command, "m", {}))


def test_what_is_missing_is_told(served: Served, files: PeerFiles) -> None:
    targets = {"llama-server": "peers", "transformers": "peers"}
    targets |= {"vllm": "peers-vllm", "openvino": "peers-openvino"}
    for kind, target in targets.items():
        with pytest.raises(UsageError) as raised:
            plans_of(kind, served, files, cores=2)
        assert f"`make {target}`" in str(raised.value)
    with pytest.raises(UsageError, match="no server 'curl'"):
        plans_of("curl", served, files, cores=2)
    plan, *_ = plans_of("ours", served, files, cores=2)
    with pytest.raises(UsageError, match="make peers"):
        client_arm("langgraph", plan, files)
    with pytest.raises(UsageError, match="no client 'curl'"):
        client_arm("curl", plan, files)


@needs_langgraph
def test_langgraph_plays_the_same(server: ServerProcess, player: ArmProcess) -> None:
    other = ArmProcess(client_arm("langgraph", server.plan, PEERS), server=server)
    try:
        assert other.about["langgraph"]
        told = play(other, [CHAIN, VOTE]).samples
    finally:
        other.close()
    for ours, theirs in zip(play(player, [CHAIN, VOTE]).samples, told, strict=True):
        facts = ("name", "prompt_tokens", "output_tokens", "output")
        for one, same in zip(
            sorted(ours["calls"], key=lambda made: made["name"]),
            sorted(theirs["calls"], key=lambda made: made["name"]),
            strict=True,
        ):
            assert [one[fact] for fact in facts] == [same[fact] for fact in facts]  # type: ignore[literal-required]
        assert ours["given_up"] == theirs["given_up"]
        assert [one["name"] for one in theirs["waits"]] == [one["name"] for one in ours["waits"]]


def odd_chat(seed: int) -> list[dict[str, str]]:
    """Text of all that tokenizers cut differently."""
    letters = "abcdefghijABCDEFG 0123456789.,:;'\"{}[]()\n\t_-/é€ÉßΩ漢"
    text = "".join(Random(seed).choices(letters, k=80))
    return [{"role": "user", "content": f"x{text}x It's 'the' HTTPServer2's, isn't it?"}]


@needs_llama
def test_llama_server_reads_and_writes_as_we_do(server: ServerProcess, served: Served) -> None:
    """Every token of prompt and answer, of a tokenizer that llama.cpp has no name for."""
    question = 'Which returned more from 2005 to 2009, AAPL or IBM?\n"It\'s" {"a": [1, 2]}.'
    chats = [*chats_in([CHAIN], 1), [{"role": "user", "content": question}]]
    codec = Codec.load(served.model)
    files = replace(PEERS, checkpoint=served.model)
    other = ServerProcess(plans_of("llama-server", served, files, cores=2)[0])
    try:
        assert check_prompt_parity(other, codec, chats) == check_prompt_parity(server, codec, chats)
        assert check_prompt_parity(other, codec, [odd_chat(seed) for seed in range(30)])
        assert "cached_tokens" in other.complete(chats[0], 1)["usage"]["prompt_tokens_details"]
    finally:
        other.close()

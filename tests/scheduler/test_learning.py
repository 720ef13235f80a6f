"""What runs teach: service, paths, depths, what follows, peaks; and what the next one is told."""

from collections.abc import Callable
from typing import Any

import pytest

from agentrt.protocol.step_output import Ledger
from agentrt.scheduler import Estimates, Send, site_of
from agentrt.scheduler.admission.kv_need import engine_site

Make = Callable[..., Any]
TEMPLATE = "p p.py"
FIRST, SECOND, THIRD = (site_of("gen", f"p.py:{line}") for line in (2, 3, 4))
ROOT, TOOL = site_of("p", "p.py:1"), site_of("tool", "p.py:9")


def taught(world: Make, job: Any, runs: int = 4, **more: Any) -> Estimates:
    one = world(**more)
    one.run([job(100.0 * n, (1.0, 2.0, 4.0), 600, gap_s=0.5) for n in range(runs)])
    estimates: Estimates = one.state.estimates
    return estimates


def test_each_call_site_learns_what_is_still_to_come(world: Make, job: Any) -> None:
    table = taught(world, job)

    def known(site: str, quantity: Any) -> float:
        return table.site(TEMPLATE, site).p50(quantity)

    assert [known(site, "busy_s") for site in (FIRST, SECOND, THIRD)] == pytest.approx([1, 2, 4])
    assert [known(s, "rest_s") for s in (ROOT, FIRST, SECOND, THIRD)] == pytest.approx([7, 7, 6, 4])
    assert [known(s, "path_s") for s in (FIRST, THIRD)] == pytest.approx([7, 4])
    assert known(TOOL, "tool_s") == pytest.approx(0.5)
    assert [known(site, "output_tokens") for site in (FIRST, THIRD)] == pytest.approx([128, 128])


def test_places_are_kept_apart_by_depth(world: Make, job: Any) -> None:
    table = taught(world, job)
    depths = {site: sorted(table.site(TEMPLATE, site).by_depth) for site in (FIRST, SECOND, TOOL)}
    assert depths == {FIRST: [1], SECOND: [2], TOOL: [1]}


def test_what_follows_is_learned(world: Make, job: Any) -> None:
    one = world()
    jobs = [job(100.0 * n, (1.0,) * (2 if n % 2 else 3), 600) for n in range(40)]
    one.run(jobs)
    table = one.state.estimates
    assert table.site(TEMPLATE, ROOT).next_probabilities() == {FIRST: pytest.approx(1.0)}
    follows = table.site(TEMPLATE, SECOND).next_probabilities()
    assert follows == {THIRD: pytest.approx(0.5, abs=0.01), "": pytest.approx(0.5, abs=0.01)}


def test_a_peak_is_what_a_run_needed_at_once(world: Make, job: Any) -> None:
    table = taught(world, job, kv_tokens=5000)
    peak = table.site(TEMPLATE, engine_site("default")).histograms["context_tokens"]
    assert peak.count == 4
    assert peak.p50 == pytest.approx(600)


def test_a_run_that_failed_teaches_nothing_of_what_comes(world: Make, job: Any) -> None:
    one = world()
    jobs = [job(1.0, (1.0, 2.0, 4.0), 600)]
    one.run(jobs, until_s=3.5)
    from agentrt.base.ids import NodeId
    from agentrt.protocol.events import NodeFinished, RunFinished

    run_id = one.run_id(0)
    one.handle([NodeFinished(run_id, NodeId(f"r/g{n}"), "cancelled", 3.5) for n in (2, 3)])
    one.handle([NodeFinished(run_id, NodeId("r"), "failed", 3.5)])
    one.handle([RunFinished(run_id, "failed", 3.5)])
    place = one.state.estimates.site(TEMPLATE, FIRST)
    assert set(place.histograms) == {"output_tokens", "busy_s"}
    assert not place.next_count


def test_the_next_run_is_told(world: Make, job: Any) -> None:
    one = world()
    jobs = [job(100.0 * n, (1.0, 2.0, 4.0), 600) for n in range(5)]
    one.run(jobs)
    sent = [d.info for _, d in one.decisions if isinstance(d, Send)]
    assert [(f.rest_s, f.rank_s, f.path_p50_s, f.output_tokens) for f in sent[:3]] == [(0,) * 4] * 3
    first, second, third = sent[-3:]
    assert [f.rest_s for f in (first, second, third)] == pytest.approx([7, 6, 4])
    assert [f.rank_s for f in (first, second, third)] == pytest.approx([7, 6, 4])
    assert [f.path_p90_s for f in (first, second, third)] == pytest.approx([7, 6, 4])
    assert [f.attained_s for f in (first, second, third)] == pytest.approx([0, 1, 3])
    assert [f.output_tokens for f in (first, second, third)] == pytest.approx([128] * 3)
    assert first.run_started_at_s == first.as_of_s == 400.0


def test_a_short_branch_does_not_shorten_the_path_of_a_long_one(world: Make, job: Any) -> None:
    from agentrt.base.ids import NodeId
    from agentrt.protocol.events import NodeDeclared

    one = world()
    one.run([job(100.0 * n, (8.0, 1.0), 600) for n in range(4)])
    one.run([job(1000.0, (8.0, 1.0), 600)], until_s=1002.0)
    run_id = one.run_id(0)
    late = NodeDeclared(
        run_id, NodeId("r/x"), "generate", "gen", NodeId("r"), (), "p.py:3", 1002.0, model="default"
    )
    run = one.state.runs[run_id]
    assert run.path_p50_s == pytest.approx(9.0)
    one.handle([late])
    assert run.nodes[NodeId("r/x")].rank_s == pytest.approx(1.0)
    assert run.path_p50_s == pytest.approx(7.0), "the long one still needs this much"


def test_a_run_waits_while_one_of_its_nodes_does(world: Make, job: Any) -> None:
    from agentrt.base.ids import NodeId
    from agentrt.protocol.events import NodeDeclared, RunStarted
    from agentrt.protocol.step_output import Admission, StepDone

    one = world()
    one.jobs = [job(0.0, (1.0,) * 9)]
    run_id = one.run_id(0)
    one.handle([RunStarted(run_id, "p", "p.py", 0.0, 0)])
    root = NodeDeclared(run_id, NodeId("r"), "program", "p", None, (), "p.py:1", 0.0)
    one.handle([root])
    for number, at_s in ((1, 0.0), (2, 1.0)):
        one.now_s = at_s
        one.handle(
            [
                NodeDeclared(
                    run_id,
                    NodeId(f"r/x{number}"),
                    "generate",
                    "x",
                    NodeId("r"),
                    (),
                    "p.py:5",
                    at_s,
                    model="default",
                )
            ]
        )
    run = one.state.runs[run_id]
    assert run.waited_until(4.0) == pytest.approx(4.0), "a fork does not age by its branches"
    first = run.nodes[NodeId("r/x1")].request_id
    one.handle([StepDone(None, (), (), admissions=(Admission(first, 4.0, "rwa", 4.0, 0, 0),))])
    assert run.waited_until(6.0) == pytest.approx(6.0)
    assert len(run.waiting) == 1


def test_steps_are_shared_by_those_in_them() -> None:
    assert Ledger(prefill_s=1.0, decode_s=3.0, steps=10, batch_size_sum=40).device_s == 1.0
    assert Ledger(prefill_s=1.0, decode_s=3.0).device_s == 4.0, "where nobody counts batches"
    joined = Ledger(prefill_s=1.0, decode_s=3.0, prompt_tokens=9, cached_tokens=9)
    assert joined.device_s == 0.0, "another one was charged for it"


def test_a_long_loop_speaks_once_for_each_class_of_depths(world: Make, job: Any) -> None:
    """Else the hundredth rounds of one run would drown what other runs had to say of theirs."""
    from agentrt.base.ids import NodeId
    from agentrt.protocol.events import NodeDeclared, NodeFinished, RunFinished, RunStarted

    one = world()
    one.jobs = [job(0.0, (1.0,) * 999)]
    run_id = one.run_id(0)
    root = NodeDeclared(run_id, NodeId("r"), "program", "p", None, (), "p.py:1", 0.0)
    one.handle([RunStarted(run_id, "p", "p.py", 0.0, 0), root])
    for number in range(200):
        after = NodeId(f"r/{number - 1}") if number else None
        loop = NodeDeclared(
            run_id, NodeId(f"r/{number}"), "ask", "x", NodeId("r"), (), "", 0.0, after=after
        )
        one.handle([loop, NodeFinished(run_id, loop.node_id, "ok", 1.0)])
    one.handle([NodeFinished(run_id, NodeId("r"), "ok", 1.0), RunFinished(run_id, "ok", 1.0)])
    deeper = one.state.estimates.site(TEMPLATE, site_of("x", "")).by_depth
    assert {place.histograms["path_s"].count for place in deeper.values()} == {1}
    assert max(deeper) == 40

"""How many threads compute, from made-up measurements, and that the answer is kept."""

import os
from pathlib import Path

import pytest

import agentrt
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores
from agentrt.engine.ops import cpu_threads
from agentrt.engine.ops.cpu_threads import Timing, Wait, candidates, fastest, measure

BOTH: tuple[Wait, ...] = ("passive", "active")


@pytest.mark.parametrize(
    ("one", "passive", "active", "chosen"),
    [
        (10.0, 6.0, 5.9, (2, "passive")),  # spinning brings next to nothing
        (10.0, 8.0, 6.0, (2, "active")),
        (10.0, 9.5, 9.2, (1, "passive")),  # a second thread hardly helps
        (10.0, 18.0, 14.0, (1, "passive")),  # barriers stall
        (10.0, 9.5, 5.0, (2, "active")),
    ],
)
def test_the_fastest_is_chosen_unless_less_will_do(one, passive, active, chosen):
    timings = [
        Timing(1, "passive", one),
        Timing(2, "passive", passive),
        Timing(2, "active", active),
    ]
    for order in (timings, timings[::-1]):
        choice = fastest(order)
        assert (choice.threads, choice.wait) == chosen
        assert choice.timings == tuple(order)
    assert "1 passive 10000.00 ms" in choice.reason


def test_many_cores_are_tried_by_powers_of_two():
    assert candidates(1, BOTH) == [(1, "passive")]
    assert candidates(2, BOTH) == [(1, "passive"), (2, "passive"), (2, "active")]
    assert [count for count, _ in candidates(12, ["passive"])] == [1, 2, 4, 8, 12]
    assert [count for count, _ in candidates(8, ["passive"])] == [1, 2, 4, 8]


class Costs:
    """A clock that a step advances by what the current choice costs."""

    def __init__(self, costs):
        self.costs, self.now_s, self.using, self.order = costs, 0.0, None, []

    def use(self, count, wait):
        self.using = (count, wait)
        self.order.append(self.using)

    def step(self):
        self.now_s += self.costs[self.using]

    def clock(self):
        return self.now_s


def test_choices_take_turns_and_a_budget_ends_them():
    costs = Costs({(1, "passive"): 0.004, (2, "passive"): 0.002})
    timings = measure(list(costs.costs), costs.use, costs.step, costs.clock)
    assert [one.step_s for one in timings] == pytest.approx([0.004, 0.002])
    assert costs.order[:4] == [(1, "passive"), (2, "passive")] * 2
    assert len(costs.order) == 2 * 25
    slow = Costs({(1, "passive"): 2.0})
    measure(list(slow.costs), slow.use, slow.step, slow.clock)
    assert len(slow.order) == 3


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two cores, a cache of its own, and a config."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    (tmp_path / "config.json").write_text("{}")
    return EngineConfig(tmp_path)


def settled(config, parameters=50_000_000, computed_by="cpu fp32", costs=None):
    costs = costs or Costs({(1, "passive"): 0.2, (2, "passive"): 0.11, (2, "active"): 0.08})
    choice = cpu_threads.choose_threads(
        config, computed_by, parameters, BOTH, costs.use, costs.step, costs.clock
    )
    assert costs.using == (choice.threads, choice.wait)
    return choice, len(costs.order)


def test_the_answer_is_kept_until_it_is_forgotten(machine):
    first, asked = settled(machine)
    assert (first.threads, first.wait) == (2, "active")
    assert asked > 3
    again, asked = settled(machine)
    assert (again, asked) == (first, 1)
    assert cpu_threads.stored_choice(machine, "cpu fp32") == first
    assert cpu_threads.stored_choice(machine, "torch fp32") is None
    cpu_threads.forget_choice(machine)
    assert cpu_threads.stored_choice(machine, "cpu fp32") is None


def test_an_old_answer_is_asked_for_again(machine):
    """It was taken beside neighbours who may have gone, or come."""
    settled(machine)
    (file,) = (machine.model_path / "agentrt" / "threads").iterdir()
    old_s = file.stat().st_mtime - cpu_threads.VALID_S - 60.0
    os.utime(file, (old_s, old_s))
    assert cpu_threads.stored_choice(machine, "cpu fp32") is None
    _, asked = settled(machine)
    assert asked > 3


def test_an_answer_that_cannot_be_is_not_believed(machine, monkeypatch):
    settled(machine)
    for file in (machine.model_path / "agentrt" / "threads").iterdir():
        file.write_text(file.read_text().replace('"threads": 2', '"threads": 99', 1))
    assert cpu_threads.stored_choice(machine, "cpu fp32") is None
    for file in (machine.model_path / "agentrt" / "threads").iterdir():
        file.write_text("[]")
    assert cpu_threads.stored_choice(machine, "cpu fp32") is None


def test_what_is_asked_for_or_small_is_not_measured(machine):
    asked = EngineConfig(machine.model_path, threads=2)
    choice, steps = settled(asked)
    assert (choice.threads, choice.reason, steps) == (2, "asked for", 1)
    assert cpu_threads.stored_choice(machine, "cpu fp32") is None
    choice, steps = settled(machine, parameters=1_000)
    assert (choice.threads, steps) == (1, 1)
    assert "too short" in choice.reason
    assert cpu_threads.stored_choice(machine, "cpu fp32") == choice  # for those who ask


def test_nothing_else_counts_cores(monkeypatch):
    """Where the system cannot say which ones a process may use, all the others would fail."""
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()
    (package,) = agentrt.__path__
    counting = ("sched_getaffinity", "cpu_count")
    found = [
        path.relative_to(package).as_posix()
        for path in sorted(Path(package).rglob("*.py"))
        if any(name in path.read_text(encoding="utf-8") for name in counting)
    ]
    assert found == ["base/cpu_cores.py"]

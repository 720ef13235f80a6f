"""The load of others is measured without our own, and a busy machine is waited for or refused."""

import os
from pathlib import Path

import pytest

from agentrt.lab.errors import BenchFailed
from agentrt.lab.quiet_machine import CpuReading, QuietMachine, others_cores, read_cpu


def counters(proc: Path, busy: int, group: int) -> Path:
    """A machine of very many cores, of which all look alike."""
    fields = [busy, 0, 0, 1000, 7, 0, 0, 0, 0, 0]
    row = " ".join(map(str, fields))
    (proc / "1").mkdir(parents=True, exist_ok=True)
    (proc / "stat").write_text("".join(f"cpu{at} {row}\n" for at in range(4096)), "ascii")
    times = f"{group} 0 0 0"
    (proc / "1" / "stat").write_text(f"1 (a name) b) S 0 77 77 0 0 0 0 0 0 0 {times} 20", "ascii")
    return proc


def test_time_of_others_leaves_out_our_own() -> None:
    before = CpuReading(at_s=10.0, busy_s=100.0, own_s=5.0)
    assert CpuReading(12.0, 103.0, 6.0).others_cores(before) == pytest.approx(1.0)
    assert CpuReading(12.0, 100.5, 6.0).others_cores(before) == 0.0


def test_the_system_s_counters_are_read(tmp_path: Path) -> None:
    first = read_cpu((), counters(tmp_path, busy=100, group=30))
    with_group = read_cpu((77,), tmp_path)
    other_group = read_cpu((78,), tmp_path)
    assert first is not None
    assert with_group is not None
    assert other_group is not None
    assert with_group.busy_s == first.busy_s > 0
    group_s = with_group.own_s - other_group.own_s
    assert group_s == pytest.approx(30 / os.sysconf("SC_CLK_TCK"), abs=0.1)
    assert read_cpu((), tmp_path / "nothing") is None


def test_a_busy_machine_is_noted_or_refused() -> None:
    assert QuietMachine("note", others=lambda: 1.5).check() == 1.5
    assert QuietMachine("refuse", others=lambda: 0.05).check() == 0.05
    assert QuietMachine("refuse", others=lambda: None).check() is None
    with pytest.raises(BenchFailed, match=r"other processes take 1\.50 cores") as raised:
        QuietMachine("refuse", others=lambda: 1.5).check()
    assert "--busy note" in (raised.value.hint or "")


def test_a_quiet_moment_is_waited_for_up_to_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    loads = iter([1.5, 0.8, 0.01, 9.0])
    assert QuietMachine("wait", others=lambda: next(loads)).check() == 0.01
    assert capsys.readouterr().err.count("waiting") == 1
    with pytest.raises(BenchFailed):
        QuietMachine("wait", patience_s=0.0, others=lambda: 1.5).check()


def test_this_machine_is_read() -> None:
    found = others_cores(0.0)
    assert found is None or found >= 0

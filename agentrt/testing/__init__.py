"""Tests of agent programs: scripted and recorded engines, virtual time, and what runs are held to.

The pytest plugin `agentrt_pytest` gives the fixtures `scripted` and `recorded`; docs/testing.md is
the guide. Nothing here needs torch.
"""

from typing import TYPE_CHECKING

from agentrt.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from agentrt.testing.assertions import (
        assert_compound_under as assert_compound_under,
    )
    from agentrt.testing.assertions import (
        assert_cost_under as assert_cost_under,
    )
    from agentrt.testing.assertions import (
        assert_critical_path as assert_critical_path,
    )
    from agentrt.testing.assertions import (
        assert_prompt_contains as assert_prompt_contains,
    )
    from agentrt.testing.assertions import (
        assert_tokens_under as assert_tokens_under,
    )
    from agentrt.testing.assertions import (
        assert_tool_calls as assert_tool_calls,
    )
    from agentrt.testing.clock import LoopClock as LoopClock
    from agentrt.testing.fake_backend import ScriptedBackend as ScriptedBackend
    from agentrt.testing.loop import (
        Stuck as Stuck,
    )
    from agentrt.testing.loop import (
        VirtualTimeLoop as VirtualTimeLoop,
    )
    from agentrt.testing.loop import (
        run_virtual as run_virtual,
    )
    from agentrt.testing.played_run import (
        PlayedGeneration as PlayedGeneration,
    )
    from agentrt.testing.played_run import (
        PlayedRun as PlayedRun,
    )
    from agentrt.testing.played_run import (
        PlayedToolCall as PlayedToolCall,
    )
    from agentrt.testing.recorded_runtime import (
        RecordedRuntime as RecordedRuntime,
    )
    from agentrt.testing.recorded_runtime import (
        RecordingRuntime as RecordingRuntime,
    )
    from agentrt.testing.replay_script import RecordingMismatch as RecordingMismatch
    from agentrt.testing.script import (
        Answers as Answers,
    )
    from agentrt.testing.script import (
        Call as Call,
    )
    from agentrt.testing.script import (
        InOrder as InOrder,
    )
    from agentrt.testing.script import (
        Reply as Reply,
    )
    from agentrt.testing.script import (
        Script as Script,
    )
    from agentrt.testing.script import (
        call as call,
    )
    from agentrt.testing.script import (
        calls_text as calls_text,
    )
    from agentrt.testing.script import (
        in_order as in_order,
    )
    from agentrt.testing.scripted_runtime import ScriptedRuntime as ScriptedRuntime
    from agentrt.testing.seen import SeenByBackend as SeenByBackend
    from agentrt.testing.spelling import WordSpelling as WordSpelling
    from agentrt.testing.tiny_model import tiny_engine as tiny_engine

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "assertions": "assert_compound_under assert_cost_under assert_critical_path "
        "assert_prompt_contains assert_tokens_under assert_tool_calls",
        "clock": "LoopClock",
        "fake_backend": "ScriptedBackend",
        "loop": "Stuck VirtualTimeLoop run_virtual",
        "played_run": "PlayedGeneration PlayedRun PlayedToolCall",
        "recorded_runtime": "RecordedRuntime RecordingRuntime",
        "replay_script": "RecordingMismatch",
        "script": "Answers Call InOrder Reply Script call calls_text in_order",
        "scripted_runtime": "ScriptedRuntime",
        "seen": "SeenByBackend",
        "spelling": "WordSpelling",
        "tiny_model": "tiny_engine",
    },
)

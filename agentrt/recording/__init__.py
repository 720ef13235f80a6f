"""Recordings of real runs: their file, and the observer that writes one.

A recording has the prompts, answers and tool calls of runs with their times, so that tests replay
them without an engine (`agentrt.testing.RecordedRuntime`).
"""

from typing import TYPE_CHECKING

from agentrt.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from agentrt.recording.file import read_recording as read_recording
    from agentrt.recording.form import (
        SCHEMA as SCHEMA,
    )
    from agentrt.recording.form import (
        RecordedAttempt as RecordedAttempt,
    )
    from agentrt.recording.form import (
        RecordedEngine as RecordedEngine,
    )
    from agentrt.recording.form import (
        RecordedError as RecordedError,
    )
    from agentrt.recording.form import (
        RecordedGeneration as RecordedGeneration,
    )
    from agentrt.recording.form import (
        RecordedQuestion as RecordedQuestion,
    )
    from agentrt.recording.form import (
        RecordedRun as RecordedRun,
    )
    from agentrt.recording.form import (
        RecordedRuns as RecordedRuns,
    )
    from agentrt.recording.form import (
        RecordedToolAttempt as RecordedToolAttempt,
    )
    from agentrt.recording.form import (
        RecordedToolCall as RecordedToolCall,
    )
    from agentrt.recording.run_recording import RunRecording as RunRecording

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "file": "read_recording",
        "form": "SCHEMA RecordedAttempt RecordedEngine RecordedError RecordedGeneration "
        "RecordedQuestion RecordedRun RecordedToolAttempt RecordedToolCall RecordedRuns",
        "run_recording": "RunRecording",
    },
)

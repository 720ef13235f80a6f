"""The error tree: one class for each kind of fault, by the party at fault, with a hint.

    AgentrtError
    ├── ProgramError            the author of the program can mend it
    │   ├── UsageError          a wrong flag, argument, file or setting
    │   ├── NoRun               a node was made outside a run
    │   ├── NotYetKnown         a pending node was used as if it were its value
    │   ├── ConstraintError     a type, schema, regex or grammar cannot be enforced
    │   ├── ContextOverflow     the prompt does not fit the model's window
    │   ├── LimitExceeded       a limit set by the author was reached
    │   │   ├── DeadlineExceeded
    │   │   ├── BudgetExceeded
    │   │   ├── RunTooLarge     a run passed its limit of depth, of nodes or of bodies at once
    │   │   └── Truncated       max_tokens ended an output that was not complete
    │   ├── CheckFailed         no attempt gave a value that passes its check
    │   │   └── OutputUnreadable an answer that its grammar allows is not read
    │   ├── Degenerate          the model repeats itself
    │   └── NodeCancelled       awaited a node that was cancelled
    ├── ToolError
    │   ├── ToolFailed          a tool raised, timed out or refused its arguments
    │   └── OutcomeUnknown      the wait for a write tool ended before the tool did
    ├── BackendError
    │   ├── EngineUnavailable   no engine answers, or it cannot start
    │   ├── NotInstalled        the embedded engine's packages are not installed
    │   ├── EngineDied          the engine's process ended while it served requests
    │   ├── OutputDiverged      asked again after a loss, an engine wrote something else
    │   ├── ModelInvalid        a model directory cannot be loaded
    │   ├── OutOfPages          a request can never fit the KV memory
    │   ├── RequestRejected     an engine refused one request
    │   │   └── AnswerRefused   a provider's filter or its model refused to answer
    │   └── Unsupported         this engine cannot do what was asked
    └── InternalError           our own bug: please report it

An error crosses a process as an `ErrorRecord` and comes back as the same class.
"""

from agentrt.base.errors.engine_errors import (
    AnswerRefused as AnswerRefused,
    BackendError as BackendError,
    EngineDied as EngineDied,
    EngineUnavailable as EngineUnavailable,
    InternalError as InternalError,
    ModelInvalid as ModelInvalid,
    NotInstalled as NotInstalled,
    OutcomeUnknown as OutcomeUnknown,
    OutOfPages as OutOfPages,
    OutputDiverged as OutputDiverged,
    RequestRejected as RequestRejected,
    ToolError as ToolError,
    ToolFailed as ToolFailed,
    Unsupported as Unsupported,
)
from agentrt.base.errors.error_record import (
    ErrorRecord as ErrorRecord,
    record_of as record_of,
    revive as revive,
)
from agentrt.base.errors.program_errors import (
    BudgetExceeded as BudgetExceeded,
    CheckFailed as CheckFailed,
    ConstraintError as ConstraintError,
    ContextOverflow as ContextOverflow,
    DeadlineExceeded as DeadlineExceeded,
    Degenerate as Degenerate,
    FailedAttempt as FailedAttempt,
    LimitExceeded as LimitExceeded,
    NodeCancelled as NodeCancelled,
    NoRun as NoRun,
    NotYetKnown as NotYetKnown,
    OutputUnreadable as OutputUnreadable,
    ProgramError as ProgramError,
    PromptPart as PromptPart,
    RunTooLarge as RunTooLarge,
    Truncated as Truncated,
    UsageError as UsageError,
)
from agentrt.base.errors.root import AgentrtError as AgentrtError
from agentrt.base.run_progress import NodeProgress as NodeProgress, RunProgress as RunProgress

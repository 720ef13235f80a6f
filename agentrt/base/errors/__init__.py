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
    │   ├── Degenerate          the model repeats itself
    │   └── NodeCancelled       awaited a node that was cancelled
    ├── ToolError
    │   ├── ToolFailed          a tool raised, timed out or refused its arguments
    │   └── OutcomeUnknown      the wait for a write tool ended before the tool did
    ├── BackendError
    │   ├── EngineUnavailable   no engine answers, or it cannot start
    │   ├── EngineDied          the engine's process ended while it served requests
    │   ├── ModelInvalid        a model directory cannot be loaded
    │   ├── OutOfPages          a request can never fit the KV memory
    │   ├── RequestRejected     an engine refused one request
    │   └── Unsupported         this engine cannot do what was asked
    └── InternalError           our own bug: please report it

An error crosses a process as an `ErrorRecord` and comes back as the same class.
"""

from agentrt.base.errors.engine_errors import (
    BackendError as BackendError,
)
from agentrt.base.errors.engine_errors import (
    EngineDied as EngineDied,
)
from agentrt.base.errors.engine_errors import (
    EngineUnavailable as EngineUnavailable,
)
from agentrt.base.errors.engine_errors import (
    InternalError as InternalError,
)
from agentrt.base.errors.engine_errors import (
    ModelInvalid as ModelInvalid,
)
from agentrt.base.errors.engine_errors import (
    OutcomeUnknown as OutcomeUnknown,
)
from agentrt.base.errors.engine_errors import (
    OutOfPages as OutOfPages,
)
from agentrt.base.errors.engine_errors import (
    RequestRejected as RequestRejected,
)
from agentrt.base.errors.engine_errors import (
    ToolError as ToolError,
)
from agentrt.base.errors.engine_errors import (
    ToolFailed as ToolFailed,
)
from agentrt.base.errors.engine_errors import (
    Unsupported as Unsupported,
)
from agentrt.base.errors.error_record import (
    ErrorRecord as ErrorRecord,
)
from agentrt.base.errors.error_record import (
    record_of as record_of,
)
from agentrt.base.errors.error_record import (
    revive as revive,
)
from agentrt.base.errors.program_errors import (
    BudgetExceeded as BudgetExceeded,
)
from agentrt.base.errors.program_errors import (
    CheckFailed as CheckFailed,
)
from agentrt.base.errors.program_errors import (
    ConstraintError as ConstraintError,
)
from agentrt.base.errors.program_errors import (
    ContextOverflow as ContextOverflow,
)
from agentrt.base.errors.program_errors import (
    DeadlineExceeded as DeadlineExceeded,
)
from agentrt.base.errors.program_errors import (
    Degenerate as Degenerate,
)
from agentrt.base.errors.program_errors import (
    FailedAttempt as FailedAttempt,
)
from agentrt.base.errors.program_errors import (
    LimitExceeded as LimitExceeded,
)
from agentrt.base.errors.program_errors import (
    NodeCancelled as NodeCancelled,
)
from agentrt.base.errors.program_errors import (
    NoRun as NoRun,
)
from agentrt.base.errors.program_errors import (
    NotYetKnown as NotYetKnown,
)
from agentrt.base.errors.program_errors import (
    ProgramError as ProgramError,
)
from agentrt.base.errors.program_errors import (
    PromptPart as PromptPart,
)
from agentrt.base.errors.program_errors import (
    RunTooLarge as RunTooLarge,
)
from agentrt.base.errors.program_errors import (
    Truncated as Truncated,
)
from agentrt.base.errors.program_errors import (
    UsageError as UsageError,
)
from agentrt.base.errors.root import AgentrtError as AgentrtError
from agentrt.base.run_progress import NodeProgress as NodeProgress
from agentrt.base.run_progress import RunProgress as RunProgress

"""Names of spans, attributes and events, in one place.

The GenAI conventions change fast and their Python constants are all marked deprecated, so this
table is our own: what the releases from 1.36 to 1.42 of the general conventions and 0.1.0 of the
GenAI conventions share, and both names where they differ. `agentrt.*` is ours.
"""

from __future__ import annotations

SCOPE = "agentrt"
RUNTIME_SERVICE = "agentrt"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
WORKFLOW = "gen_ai.workflow.name"
AGENT = "gen_ai.agent.name"  # of a workflow too, since 0.1.0 of the GenAI conventions
CONVERSATION = "gen_ai.conversation.id"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_MODEL = "gen_ai.request.model"
STOP_SEQUENCES = "gen_ai.request.stop_sequences"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"  # seconds
OUTPUT_TYPE = "gen_ai.output.type"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
DETAILS_EVENT = "gen_ai.client.inference.operation.details"
ERROR_TYPE = "error.type"

INVOKE_WORKFLOW = "invoke_workflow"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

# OpenInference, for viewers that take no workflow of the GenAI conventions for one, as Phoenix.
INFERENCE_KIND = "openinference.span.kind"
INPUT_VALUE = "input.value"
OUTPUT_VALUE = "output.value"

# Message content: exported only on the user's request.
CONTENT = frozenset(
    {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        INPUT_VALUE,
        OUTPUT_VALUE,
    }
)

RUN_ID = "agentrt.run.id"
PROGRAM = "agentrt.program"
COMPOUND_MS = "agentrt.latency.compound_ms"
WORK_MS = "agentrt.latency.work_ms"
PARALLELISM = "agentrt.parallelism"
PATH_MS = "agentrt.critical_path.ms"
PATH_NODES = "agentrt.critical_path.nodes"
SPLIT_MS = "agentrt.split.{}_ms"
DEADLINE_MS = "agentrt.slo.deadline_ms"
DEADLINE_MET = "agentrt.slo.met"
SEED = "agentrt.seed"
RETRIES = "agentrt.retries"
ENGINE_DOWNS = "agentrt.engine.downs"
# The GenAI conventions have no attribute for money.
COST = "agentrt.cost.amount"  # units of the currency
COST_CURRENCY = "agentrt.cost.currency"
COST_DISCARDED = "agentrt.cost.discarded"
COST_SAVED = "agentrt.cost.saved"  # by an answer of the response cache
RESPONSE_CACHE = "agentrt.response_cache"  # hit or miss
TENANT = "agentrt.tenant"
PRIORITY = "agentrt.priority"

NODE_ID = "agentrt.node.id"
NODE_NAME = "agentrt.node.name"
NODE_KIND = "agentrt.node.kind"
NODE_SITE = "agentrt.node.site"
NODE_DEPS = "agentrt.node.deps"
NODE_SLACK_MS = "agentrt.node.slack_ms"
NODE_ITEM = "agentrt.node.item"
NODE_DECLARED_MS = "agentrt.node.declared_ms"  # since the run began
# The graph of the run, exactly: what a record has to hold to be replayed.
NODE_ORDER = "agentrt.node.order"  # places of declaration and end in causal order, in one text
NODE_ENDED_MS = "agentrt.node.ended_ms"  # since the run began, as all instants here
NODE_DEMANDED_MS = "agentrt.node.demanded_ms"
NODE_PLAN = "agentrt.node.plan"  # generation with the item that started a tool
NODE_AFTER = "agentrt.node.after"  # node that code had waited for by the declaration
NODE_AFTER_ITEM = "agentrt.node.after_item"
NODE_END_AFTER = "agentrt.node.end_after"  # likewise by the end
NODE_END_AFTER_ITEM = "agentrt.node.end_after_item"
NODE_STOPPED_MS = "agentrt.node.stopped_ms"
NODE_ITEMS = "agentrt.node.items"  # "index ms place, ..." of the items that others waited for
NODE_STAGES = "agentrt.node.stages"  # "label ms, ..." from the last input to the end
CRITICAL = "agentrt.critical"
ATTEMPT = "agentrt.attempt"
CANCELLED_REASON = "agentrt.cancelled.reason"
CLOSED_EARLY = "agentrt.closed_early"
ENGINE = "agentrt.engine"
STAGE_MS = "agentrt.{}_ms"
PREFIX_CACHED = "agentrt.prefix.cached_tokens"
PREFIX_LOST = "agentrt.prefix.lost_tokens"
PREFIX_LOST_REASON = "agentrt.prefix.lost_reason"
PREFILL_CHUNKS = "agentrt.prefill.chunks"
PREFILL_AHEAD = "agentrt.prefill.ahead_tokens"
PREFILL_WARMED = "agentrt.prefill.warmed_tokens"
PREFILL_EARLY_MS = "agentrt.prefill.early_ms"
PREFILL_TOKENS = "agentrt.prefill.tokens"
RECOMPUTED = "agentrt.prefill.recomputed_tokens"
DECODE_TOKENS = "agentrt.decode.tokens"
DRAFT_ACCEPTED = "agentrt.draft.{}.accepted_tokens"
DRAFT_REJECTED = "agentrt.draft.{}.rejected_tokens"
EXPERT_TOKENS = "agentrt.experts.tokens"  # "of expert, ...; ..." of each layer, in one text
EXPERT_HITS = "agentrt.experts.cache_hits"  # of all steps with the request, as the misses
EXPERT_MISSES = "agentrt.experts.cache_misses"
RETRIED = "agentrt.decode.retried_tokens"
SERVER_QUEUE_MS = "agentrt.queue.server_ms"
CONSTRAINT_KIND = "agentrt.constraint.kind"
FORCED = "agentrt.constraint.forced_tokens"
FIRST_TOKEN = "agentrt.first_token"
CHECK_FAILED = "agentrt.check.failed"
CHECK_REASON = "agentrt.check.reason"
CHECK_TOKENS = "agentrt.check.retried_tokens"
CHECK_PROMPT_TOKENS = "agentrt.check.prompt_tokens"  # of the answers that failed
CHECK_CACHED_TOKENS = "agentrt.check.cached_tokens"
ITL_MEAN = "agentrt.itl_ms.mean"
BATCH_MEAN = "agentrt.batch.size_mean"
PREEMPTED = "agentrt.preempted"
TIMING_SOURCE = "agentrt.timing.source"
LINK = "agentrt.link"

SCHEDULED = "agentrt.scheduled"
DECISION = "agentrt.decision"
DECISION_REASON = "agentrt.decision.reason"
POLICY = "agentrt.policy"
TERM = "agentrt.term.{}"
AT_MS = "agentrt.at_ms"  # since the run began

STEP = "engine.step"
STEP_INDEX = "agentrt.step"
BATCH_SIZE = "agentrt.batch.size"
BATCH_TOKENS = "agentrt.batch.tokens"
BATCH_PREFILL_TOKENS = "agentrt.batch.prefill_tokens"

LISTS = frozenset({FINISH_REASONS, PATH_NODES, NODE_DEPS, STOP_SEQUENCES})
"""Attributes with several texts, which Jaeger's JSON holds as one."""

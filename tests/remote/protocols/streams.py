"""One answer in the events of each protocol: reasoning, text, then two calls side by side."""

import json
from typing import Any

Json = dict[str, Any]

ARGUMENTS = ('{"x": 1}', '{"y":"\\u00e9"}')
REASONING = "Let me sée."
TEXT = "I lóok it up."
NAMES = {"id": "answer-1", "model": "m-2026-10-01"}


def chat_events() -> list[Json]:
    """Chunks of a chat completion."""

    def delta(fields: Json, finish: str | None = None) -> Json:
        return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}

    def call(index: int, name: str, arguments: str) -> Json:
        function = {"name": name, "arguments": arguments}
        return delta({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})

    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 16},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    return [
        *(NAMES | delta({"reasoning_content": piece}) for piece in halves(REASONING)),
        *(delta({"content": piece}) for piece in halves(TEXT)),
        call(0, "a", ARGUMENTS[0][:3]),
        delta({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[0][3:]}}]}),
        call(1, "b", ARGUMENTS[1]),
        delta({}, "tool_calls"),
        {"choices": [], "usage": usage},
    ]


def message_events() -> list[Json]:
    """Events of a message."""

    def begin(index: int, **block: Any) -> Json:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def more(index: int, kind: str, name: str, piece: str) -> Json:
        delta = {"type": kind, name: piece}
        return {"type": "content_block_delta", "index": index, "delta": delta}

    counts = {"input_tokens": 3, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 16}
    last = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    thoughts = [more(0, "thinking_delta", "thinking", piece) for piece in halves(REASONING)]
    texts = [more(1, "text_delta", "text", piece) for piece in halves(TEXT)]
    first = [more(2, "input_json_delta", "partial_json", piece) for piece in halves(ARGUMENTS[0])]
    return [
        {"type": "message_start", "message": NAMES | {"usage": counts | {"output_tokens": 1}}},
        begin(0, type="thinking", thinking="", signature=""),
        {"type": "ping"},
        *thoughts,
        more(0, "signature_delta", "signature", "c2lnbmVk"),
        {"type": "content_block_stop", "index": 0},
        begin(1, type="text", text=""),
        *texts,
        {"type": "content_block_stop", "index": 1},
        begin(2, type="tool_use", id="toolu_1", name="a", input={}),
        *first,
        {"type": "content_block_stop", "index": 2},
        begin(3, type="tool_use", id="toolu_2", name="b", input={}),
        more(3, "input_json_delta", "partial_json", ARGUMENTS[1]),
        {"type": "content_block_stop", "index": 3},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": last},
        {"type": "message_stop"},
    ]


def response_events() -> list[Json]:
    """Events of a response."""

    def event(kind: str, **fields: Any) -> Json:
        return {"type": f"response.{kind}", "sequence_number": 0, **fields}

    def begin(index: int, **item: Any) -> Json:
        return event("output_item.added", output_index=index, item=item)

    def more(kind: str, index: int, piece: str) -> Json:
        return event(f"{kind}.delta", output_index=index, delta=piece)

    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 16},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    return [
        event("created", response=NAMES | {"status": "in_progress"}),
        begin(0, type="reasoning", summary=[]),
        event("reasoning_summary_part.added", output_index=0, summary_index=0),
        *(more("reasoning_summary_text", 0, piece) for piece in halves(REASONING)),
        begin(1, type="message", role="assistant", content=[]),
        *(more("output_text", 1, piece) for piece in halves(TEXT)),
        event("output_text.done", output_index=1, text=TEXT),
        begin(2, type="function_call", call_id="call_1", name="a", arguments=""),
        *(more("function_call_arguments", 2, piece) for piece in halves(ARGUMENTS[0])),
        event("function_call_arguments.done", output_index=2, arguments=ARGUMENTS[0]),
        begin(3, type="function_call", call_id="call_2", name="b", arguments=""),
        more("function_call_arguments", 3, ARGUMENTS[1]),
        event("completed", response={"status": "completed", "usage": usage}),
    ]


def halves(text: str) -> tuple[str, str]:
    """The text in two pieces."""
    return text[:2], text[2:]


def sent(events: list[Json]) -> bytes:
    """Events as bytes on the wire, with their names where they have some."""
    return b"".join(
        (f"event: {one['type']}\n" if "type" in one else "").encode()
        + f"data: {json.dumps(one, ensure_ascii=False)}\n\n".encode()
        for one in events
    )


STREAMS = {
    "chat_completions": chat_events(),
    "messages": message_events(),
    "responses": response_events(),
}

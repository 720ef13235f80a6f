"""The reading of events: a protocol's own reader, and what puts its parts together."""

from agentrt.remote.answers.answer_reader import AnswerReader
from agentrt.remote.protocols import WIRE_PROTOCOLS


class EventReading(AnswerReader):
    """Reader of an answer in one protocol, event by event."""

    def __init__(self, max_calls=0, *, by_call=False, protocol="chat_completions"):
        super().__init__(max_calls, by_call=by_call)
        self._events = WIRE_PROTOCOLS[protocol].reader()

    def feed_event(self, event):
        return self.feed_parts(self._events.parts(event))

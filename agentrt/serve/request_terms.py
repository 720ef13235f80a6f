"""Terms of a request beside its generation: tenant, order, and form of the answer."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.serve.request_schema import GenerationFields


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """The terms of one request.

    Attributes:
        model: Name of the model or adapter that answers, as the client gave it; "" without one.
        cache_salt: Salt that the client gave, or "".
        user: User that the request names, or "".
        session: Session that joins the requests of one program, or "".
        priority: Priority among the requests of its client; the smallest is served first.
        stream: Whether the answer is streamed.
        wants_usage: Whether a stream ends with its usage.
        wants_ids: Whether the answer has the ids of its tokens and of its prompt.
        alternatives: Alternatives of each token with their log-probabilities; None without any
            log-probabilities.
        names_ids: Whether these name tokens by their ids, not by their text.
        is_scored: Whether the options of a choice are scored.
    """

    model: str = ""
    cache_salt: str = ""
    user: str = ""
    session: str = ""
    priority: int = 0
    stream: bool = False
    wants_usage: bool = False
    wants_ids: bool = False
    alternatives: int | None = None
    names_ids: bool = False
    is_scored: bool = False


def terms_of(question: GenerationFields) -> RequestTerms:
    """The terms in a request's body.

    Raises:
        RequestRefused: Fields contradict each other.
    """
    return RequestTerms(
        model=question.model,
        cache_salt=question.cache_salt or "",
        user=question.user if isinstance(question.user, str) else "",
        session=question.session_id or "",
        priority=question.priority,
        stream=bool(question.stream),
        wants_usage=question.stream_options is not None and question.stream_options.include_usage,
        wants_ids=bool(question.return_token_ids),
        alternatives=question.alternatives,
        names_ids=bool(question.return_tokens_as_token_ids),
        is_scored=question.scored,
    )

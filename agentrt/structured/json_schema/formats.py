"""Formats as patterns: real dates, times without leap seconds, bounded digits.

The grammar compiler knows formats too, but allows the 29th of February of any year and the year 0,
which no Python type accepts. Each pattern matches whole strings.
"""

from __future__ import annotations

_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

DATE = rf"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
"""A day of the calendar, years 1 to 9999."""

TIME = rf"{_CLOCK}{_OFFSET}"
"""RFC 3339 `full-time`."""

DATE_TIME = rf"{DATE}[Tt]{TIME}"
"""RFC 3339 `date-time`."""

PYTHON_TIME = rf"{_CLOCK}{_ZONE}?"
PYTHON_DATETIME = rf"{DATE}T{_CLOCK}{_ZONE}?"
AWARE_DATETIME = rf"{DATE}T{_CLOCK}{_ZONE}"
NAIVE_DATETIME = rf"{DATE}T{_CLOCK}"

_SECONDS = r"[0-9]{1,6}(?:\.[0-9]{1,6})?S"
_MINUTES = rf"[0-9]{{1,6}}M(?:{_SECONDS})?"
_HOURS = rf"[0-9]{{1,6}}H(?:{_MINUTES}|{_SECONDS})?"
_IN_DAY = rf"T(?:{_HOURS}|{_MINUTES}|{_SECONDS})"
DURATION = rf"-?P(?:(?:[0-9]{{1,3}}Y(?:[0-9]{{1,3}}D)?|[0-9]{{1,6}}D)(?:{_IN_DAY})?|{_IN_DAY})"
"""Durations that `datetime.timedelta` reads and pydantic writes."""

INTEGER_KEY = r"(?:0|-?[1-9][0-9]{0,17})"

_LABEL = r"[a-z0-9](?:-?[a-z0-9]){0,15}"
_HOST = rf"(?:{_LABEL}\.){{0,3}}[a-z](?:-?[a-z0-9]){{0,15}}"
_PATH = r"(?:/[A-Za-z0-9._~+,;=:@&/-]*(?:\?[A-Za-z0-9._~+,;=:@&/-]*)?)?"


_PERCENT = r"%[0-9A-Fa-f]{2}"
_MARKS = "._~!$&()*+,;=@-"
_PLAIN = rf"A-Za-z0-9'{_MARKS}"
_NAMED = _PLAIN.replace("@", "")
_BEYOND_ASCII = r"\x{a0}-\x{d7ff}\x{f900}-\x{fdcf}\x{fdf0}-\x{ffef}\x{10000}-\x{1fffd}"


def reference(more: str = "") -> str:
    """RFC 3986 `URI-reference`, hosts by name or by four numbers.

    Args:
        more: Characters beyond those of a URI, as in a regex class.
    """
    char = rf"(?:[{more}:{_PLAIN}]|{_PERCENT})"
    first = rf"(?:[{more}{_PLAIN}]|{_PERCENT})"
    path = rf"(?:/{char}*)*"
    rest = rf"(?:\?(?:{char}|[/?])*)?(?:#(?:{char}|[/?])*)?"
    user = rf"(?:[{more}:{_NAMED}]|{_PERCENT})*@"
    name = rf"(?:[{more}{_NAMED}]|{_PERCENT})+"
    host = rf"//(?:{user})?{name}(?::[0-9]{{1,5}})?{path}"
    scheme = r"[A-Za-z][A-Za-z0-9+.-]*:"
    local = rf"/(?:{first}+{path})?|(?:{first}+{path})?"
    return rf"(?:(?:{scheme})?{host}|{scheme}{first}+{path}|{local}){rest}"


_NAME = (
    rf"(?:[A-Za-z0-9_]|{_PERCENT})+(?:\.(?:[A-Za-z0-9_]|{_PERCENT})+)*(?:\*|:[1-9][0-9]{{0,3}})?"
)
URI_TEMPLATE = (
    rf"(?:[{_BEYOND_ASCII}A-Za-z0-9:/?#\[\]{_MARKS}]|{_PERCENT}"
    rf"|\{{[+#./;?&]?{_NAME}(?:,{_NAME})*\}})*"
)
"""RFC 6570, up to level 4."""

_ATOM = r"(?:[A-Za-z0-9 _,:;=@/<>!#%&'~-]|\\[dDsSwW.^$*+?()\[\]{}|\\/]|\.)[*+?]?"
REGEX = rf"\^?(?:{_ATOM})*(?:\|(?:{_ATOM})*)*\$?"
"""Regexes of all dialects: characters, classes by letter, repeats, alternatives."""


def url(schemes: list[str]) -> str:
    """URLs with a host name, of these schemes."""
    return rf"(?:{'|'.join(schemes)})://{_HOST}(?::[1-9][0-9]{{0,3}})?{_PATH}"


def uuid(version: int | None) -> str:
    """UUIDs of one version, or of any."""
    digit = r"[0-9a-f]"
    third = rf"{digit}{{4}}" if version is None else rf"{version}{digit}{{3}}"
    fourth = rf"{digit}{{4}}" if version is None else rf"[89ab]{digit}{{3}}"
    return rf"{digit}{{8}}-{digit}{{4}}-{third}-{fourth}-{digit}{{12}}"


def decimal(max_digits: int | None, decimal_places: int | None, most_whole: int = 18) -> str:
    """Decimal numbers with counted digits.

    Args:
        max_digits: Maximum number of digits; None: `most_whole` before the point.
        decimal_places: Maximum number of digits after the point; None: at most 18.
        most_whole: Maximum number of digits before the point if all digits are not counted.
    """
    if max_digits is not None and decimal_places is None:
        places = range(min(max_digits, 19))
        return "|".join(_decimal(max_digits - count, count) for count in places)
    count = 18 if decimal_places is None else decimal_places
    if max_digits is None:
        return _decimal(most_whole, count)
    count = min(count, max_digits - 1)
    return _decimal(max(1, max_digits - count), count)


def _decimal(whole: int, places: int) -> str:
    fraction = rf"(?:\.[0-9]{{1,{places}}})?" if places else ""
    return rf"-?(?:0|[1-9][0-9]{{0,{whole - 1}}}){fraction}"


def anchored(pattern: str) -> str:
    """`pattern` for whole texts: a JSON Schema `pattern` would match anywhere."""
    return f"^(?:{pattern})$"


PATTERNS: dict[str, str] = {
    "date": DATE,
    "time": TIME,
    "date-time": DATE_TIME,
    "idn-hostname": _HOST,
    "iri-reference": reference(_BEYOND_ASCII),
    "regex": REGEX,
    "uri-reference": reference(),
    "uri-template": URI_TEMPLATE,
    **{f"uuid{version}": uuid(version) for version in range(1, 9)},
}
"""JSON Schema formats enforced by our own pattern."""

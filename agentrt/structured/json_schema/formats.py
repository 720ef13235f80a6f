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
NAIVE_TIME = _CLOCK

_SECONDS = r"[0-9]{1,6}(?:\.[0-9]{1,6})?S"
_MINUTES = rf"[0-9]{{1,6}}M(?:{_SECONDS})?"
_HOURS = rf"[0-9]{{1,6}}H(?:{_MINUTES}|{_SECONDS})?"
_IN_DAY = rf"T(?:{_HOURS}|{_MINUTES}|{_SECONDS})"
DURATION = rf"-?P(?:(?:[0-9]{{1,3}}Y(?:[0-9]{{1,3}}D)?|[0-9]{{1,6}}D)(?:{_IN_DAY})?|{_IN_DAY})"
"""Durations that `datetime.timedelta` reads and pydantic writes."""

_DECIMAL = r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?"
FRACTION = r"-?(?:0|[1-9][0-9]{0,17})(?:/[1-9][0-9]{0,17})?"
COMPLEX = rf"-?{_DECIMAL}(?:[+-]{_DECIMAL}j)?"
BYTE_SIZE = rf"{_DECIMAL} ?(?:[KMGTPE]i?)?B"

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
    return rf"(?:{'|'.join(map(_escaped, schemes))})://{_HOST}(?::[1-9][0-9]{{0,3}})?{_PATH}"


def multi_host_url(schemes: list[str]) -> str:
    """URLs with one or more hosts, each with its port."""
    host = rf"{_HOST}:[1-9][0-9]{{0,3}}"
    return rf"(?:{'|'.join(map(_escaped, schemes))})://{host}(?:,{host}){{0,3}}(?:/[A-Za-z0-9_-]*)?"


def _escaped(scheme: str) -> str:
    return scheme.replace("+", r"\+").replace(".", r"\.")


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


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_HEXTET = r"[1-9a-f][0-9a-f]{0,3}"
_IPV6 = rf"(?:{_HEXTET}(?::{_HEXTET}){{7}}|{_HEXTET}(?::{_HEXTET}){{0,5}}::{_HEXTET})"
_IPV4_NETWORK = (
    rf"(?:{_IPV4}/32|{_OCTET}(?:\.{_OCTET}){{2}}\.0/24|{_OCTET}\.{_OCTET}\.0\.0/16"
    rf"|{_OCTET}\.0\.0\.0/8|0\.0\.0\.0/0)"
)
_IPV6_NETWORK = rf"(?:{_IPV6}/128|{_HEXTET}(?::{_HEXTET}){{0,3}}::/64|{_HEXTET}:{_HEXTET}::/32)"
_IPV4_INTERFACE = rf"{_IPV4}/(?:3[0-2]|[12]?[0-9])"
_IPV6_INTERFACE = rf"{_IPV6}/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"


def base64(more: str) -> str:
    """Base64 with padding; bits behind the last byte are 0.

    Args:
        more: The last two digits, as in a regex class.
    """
    digit = rf"[A-Za-z0-9{more}]"
    return rf"(?:{digit}{{4}})*(?:{digit}[AQgw]==|{digit}{{2}}[AEIMQUYcgkosw048]=)?"


BASE64_ASCII = r"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9])*"
"""Base64 of ASCII text, of three characters at a time, in both alphabets."""


def anchored(pattern: str) -> str:
    """`pattern` for whole texts: a JSON Schema `pattern` would match anywhere."""
    return f"^(?:{pattern})$"


PATTERNS: dict[str, str] = {
    "date": DATE,
    "time": TIME,
    "date-time": DATE_TIME,
    "idn-hostname": _HOST,
    "base64": base64("+/"),
    "base64url": base64("_-"),
    "ipv4network": _IPV4_NETWORK,
    "ipv6network": _IPV6_NETWORK,
    "ipv4interface": _IPV4_INTERFACE,
    "ipv6interface": _IPV6_INTERFACE,
    "ipvanyaddress": rf"(?:{_IPV4}|{_IPV6})",
    "ipvanynetwork": rf"(?:{_IPV4_NETWORK}|{_IPV6_NETWORK})",
    "ipvanyinterface": rf"(?:{_IPV4_INTERFACE}|{_IPV6_INTERFACE})",
    "iri-reference": reference(_BEYOND_ASCII),
    "regex": REGEX,
    "uri-reference": reference(),
    "uri-template": URI_TEMPLATE,
    **{f"uuid{version}": uuid(version) for version in range(1, 9)},
}
"""JSON Schema formats enforced by our own pattern."""

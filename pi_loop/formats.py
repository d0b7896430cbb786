"""The formats a tool's schema may ask for, as Pi checks them: each a function from text to bool. Pure.

Source: Pi 1.6.0, "Argument validation" (the format checks of TypeBox 1.3, MIT, which Pi uses).
"""

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from pi_loop.ecmascript import regex

_I = re.IGNORECASE | re.ASCII
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)
_PERIOD = r"\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S"
_DURATION = re.compile(
    rf"P(?:(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T(?:{_PERIOD}))?|T(?:{_PERIOD})|\d+W)", re.ASCII
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}", re.ASCII)
_ATOM = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL = re.compile(
    rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[^"\\]|\\[\x20-\x7e])*")'
    rf"@(?:{_LABEL}(?:\.{_LABEL})*|\[(?:IPv6:[a-f0-9:]+|{_OCTET}(?:\.{_OCTET}){{3}})\])",
    _I,
)
_HOSTNAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", _I)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", _I)
_POINTER = r"(?:/(?:[^~/]|~0|~1)*)*"
_JSON_POINTER = re.compile(_POINTER)
_RELATIVE_POINTER = re.compile(rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})")
_FRAGMENT_POINTER = re.compile(r"#(?:/(?:[a-z0-9_\-.!$&'()*+,;:=@]|%[0-9a-f]{2}|~0|~1)*)*", _I)
_PCHAR = r"(?:[-a-z0-9._~!$&'()*+,;=:@]|%[0-9a-f]{2})"
_AFTER = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_USER = r"(?:(?:[-a-z0-9._~!$&'()*+,;=:]|%[0-9a-f]{2})*@)?"
_HOST = (
    r"(?:\[(?P<ip>[0-9a-f:.]+)\]|\[v[0-9a-f]+\.[-a-z0-9._~!$&'()*+,;=:]+\]|(?:[-a-z0-9._~!$&'()*+,;=]|%[0-9a-f]{2})*)"
)
_AUTHORITY = rf"//{_USER}{_HOST}(?::\d*)?(?:/{_PCHAR}*)*"
_PATHS = rf"/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?"
_URI = re.compile(rf"[a-z][a-z0-9+\-.]*:(?:{_AUTHORITY}|{_PATHS}|{_PCHAR}+(?:/{_PCHAR}*)*)?{_AFTER}", _I)
_FIRST = r"(?:[-a-z0-9._~!$&'()*+,;=@]|%[0-9a-f]{2})+"
_RELATIVE = re.compile(rf"(?:{_AUTHORITY}|{_PATHS}|{_FIRST}(?:/{_PCHAR}*)*)?{_AFTER}", _I)
_NAME = r"(?:[a-z0-9_]|%[0-9a-f]{2})+"
_VARIABLE = rf"{_NAME}(?:\.{_NAME})*(?::[1-9]\d{{0,3}}|\*)?"
_TEMPLATE = re.compile(
    rf"(?:(?:[^\x00-\x20\"<>%\\^`{{|}}\x7f]|%[0-9a-f]{{2}})|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*", _I
)
_IRI_REFUSED = re.compile(r"[\x00-\x20<>^`{|}\\]|%(?![0-9a-fA-F]{2})")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+\-.]*:")
# A character class, escapes before it left alone.
_OUTSIDE_CLASSES = re.compile(r"(?<!\\)\[(?:\\.|[^\]\\])*\]")
_STRAY_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^\^$.*+?()\[\]{}|/dDwWsSbBtnvfr0-9cxukpP\\]")
# Schemes of the WHATWG URL standard that need a host.
_WITH_HOST = frozenset({"http", "https", "ws", "wss", "ftp"})


def _full(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    if year == 0:
        # Python has no year 0; it is a leap year and otherwise like any other.
        year = 2000
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    zone_hour, zone_minute = int(match[5] or 0), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or zone_hour > 23 or zone_minute > 59:
        return False
    if second < 60:
        return True
    sign = -1 if match[4] == "-" else 1
    # A leap second exists only at 23:59:60 UTC.
    return (hour * 60 + minute - sign * (zone_hour * 60 + zone_minute)) % 1440 == 1439


def _is_date_time(text: str) -> bool:
    parts = re.split("[Tt]", text)
    return len(parts) == 2 and _is_date(parts[0]) and _is_time(parts[1])


def _is_ipv6(text: str) -> bool:
    if "%" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_hostname(text: str) -> bool:
    if len(text) > 253 or _HOSTNAME.fullmatch(text) is None:
        return False
    # Two hyphens in the third and fourth place are kept for encoded labels.
    return all(label[2:4] != "--" or label[:2].lower() == "xn" for label in text.split("."))


def _is_idn_hostname(text: str) -> bool:
    normal = unicodedata.normalize("NFC", text)
    if any(label.startswith("-") or label.endswith("-") for label in normal.split(".")):
        return False
    try:
        return _is_hostname(normal.encode("idna").decode("ascii"))
    except UnicodeError:
        return False


def _is_idn_email(text: str) -> bool:
    user, at, host = unicodedata.normalize("NFC", text).rpartition("@")
    folded = re.sub(r"[^\x00-\x7f]", "x", user)
    return bool(at) and _EMAIL.fullmatch(f"{folded}@x") is not None and _is_idn_hostname(host)


def _uri(pattern: re.Pattern[str], text: str) -> bool:
    match = pattern.fullmatch(text)
    return match is not None and (match["ip"] is None or _is_ipv6(match["ip"]))


def _is_uri(text: str) -> bool:
    return _uri(_URI, text)


def _is_uri_reference(text: str) -> bool:
    return _uri(_URI, text) or _uri(_RELATIVE, text)


def _is_url(text: str) -> bool:
    """Whether a text is an absolute URL with what its scheme needs; close to WHATWG's parser."""
    stripped = text.strip("".join(map(chr, range(33))))
    if _SCHEME.match(stripped) is None:
        return False
    try:
        parts = urlsplit(stripped)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme in _WITH_HOST:
        host = parts.hostname or stripped.partition(":")[2].strip("/\\").partition("/")[0]
        return bool(host) and re.search(r"[\s<>^|%#]", host) is None and (port is None or port < 65536)
    return True


def _is_iri(text: str) -> bool:
    return _IRI_REFUSED.search(text) is None and _is_url(text)


def _is_iri_reference(text: str) -> bool:
    if _IRI_REFUSED.search(text) is not None:
        return False
    return _is_url(text) if _SCHEME.match(text) else True


def _is_regex(text: str) -> bool:
    """Whether a text is a pattern under the flag `u`, which forbids stray brackets, braces and escapes."""
    plain = _OUTSIDE_CLASSES.sub("", text)
    if _STRAY_ESCAPE.search(plain) or re.search(r"\(\?[a-zA-Z]", plain):
        return False
    if re.search(r"[]{}]", re.sub(r"\\[pPu]\{[^}]*\}|\\.|\{\d+(?:,\d*)?\}", "", plain)):
        return False
    try:
        regex(text)
    except (re.error, ValueError):
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "duration": _full(_DURATION),
    "email": _full(_EMAIL),
    "hostname": _is_hostname,
    "idn-email": _is_idn_email,
    "idn-hostname": _is_idn_hostname,
    "ipv4": _full(_IPV4),
    "ipv6": _is_ipv6,
    "iri": _is_iri,
    "iri-reference": _is_iri_reference,
    "json-pointer": _full(_JSON_POINTER),
    "json-pointer-uri-fragment": _full(_FRAGMENT_POINTER),
    "regex": _is_regex,
    "relative-json-pointer": _full(_RELATIVE_POINTER),
    "time": _is_time,
    "uri": _is_uri,
    "uri-reference": _is_uri_reference,
    "uri-template": _full(_TEMPLATE),
    "url": _is_url,
    "uuid": _full(_UUID),
}

"""`Layouts`: strips the layout around the text of a line: stamps, levels, loggers, and wrappers of containers.

Each line shows its layout by its own form, so that files of mixed layouts work. Only lines selected by a scan come
here, so that a scan of gigabytes does not wait for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

import orjson


class Line(NamedTuple):
    """A line: its place, its time, and its text without layout.

    `time` is milliseconds since 1970, None without a stamp; `resolution` is that of the stamp in milliseconds. `zoned`
    is True if the stamp has a zone, or a wrapper shows it. `fields` are other values of a line of JSON, of librdkafka
    and of java.util.logging.
    """

    file: str
    number: int
    time: int | None
    resolution: int
    zoned: bool
    level: str
    logger: str
    text: str
    fields: Mapping[str, str] = {}

    @property
    def where(self) -> str:
        """Return the file and the number of the line, `server.log:4711`."""
        return f"{self.file}:{self.number}"


class Stamp(NamedTuple):
    """A stamp: milliseconds since 1970, their resolution, and whether it has a zone."""

    time: int
    resolution: int
    zoned: bool


_MOMENT: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL: Final = r"(?P<level>TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)"
_UTC: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
_NAME: Final = r"[\w.$-]+"
_PYTHON: Final = rf"\[?(?P<logger>(?:kafka|aiokafka){_NAME})\]?"


def _layout(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("STAMP", rf"(?P<stamp>{_MOMENT})").replace("LEVEL", _LEVEL), re.DOTALL)


_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COMPOSE: Final = re.compile(r"[\w.-]+ +\| (?=[\[{%\d(]|[A-Z]{4,5}\b)")
_POD: Final = re.compile(r"\[pod/[^\]]+\] ")
_CRI: Final = re.compile(rf"(?P<stamp>{_UTC}) (?:stdout|stderr) [PF] ")
_COLLECTED: Final = re.compile(rf"(?P<stamp>{_UTC}) (?=[\[{{(%]|[\d]{{4}}-|[A-Z]{{4,5}}\b(?! +\d+ ---))")
"""A stamp of `docker logs -t` or `kubectl logs --timestamps`, before a line with a layout of its own."""

_MONTH: Final = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_KIBANA: Final = re.compile(
    rf"\s*{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th|,) (?P<year>\d{{4}})(?:,| @) (?P<hours>\d\d:\d\d:\d\d\.\d{{3}})\s+"
    r"(?:(?:trace|debug|info|warn|warning|error|fatal) )?",
    re.IGNORECASE,
)
"""A stamp of Kibana, to 6 with the day's ordinal and since 7 with an @, before a line that was copied from it."""
_TAIL: Final = re.compile(r"(?:[A-Z]{4,5} )?(?P<text>[^{]+) (?P<fields>\{\".*\})$", re.DOTALL)
"""A message with its fields as JSON behind it, as loggers of Node.js print it."""

_LAYOUTS: Final = (
    # Faust, Celery, and env_logger of Rust
    _layout(r"\[STAMP: LEVEL(?:/[^\]]*)?\]:? +(?P<text>.*)"),
    _layout(r"\[STAMP\] \[[^\]]*\] \[LEVEL\] (?:\[[^\]]*\]: )?(?P<text>.*)"),
    _layout(r"\[STAMP LEVEL +(?P<logger>[\w:]+)\] (?P<text>.*)"),
    # Ruby
    _layout(r"[DIWEF], \[STAMP #\d+\] +LEVEL -- [^:]*: (?P<text>.*)"),
    # Kafka: [%d] %p %m (%c)%n
    _layout(r"\[STAMP\] LEVEL +(?P<text>.*)"),
    # Spring Boot: a process number and three dashes
    _layout(r"STAMP +LEVEL +\d+ --- (?:\[[^\]]*\] ?)+ *(?P<logger>\S+) *: (?P<text>.*)"),
    # Strimzi with Kafka 4: the class and the line of the source
    _layout(rf"STAMP LEVEL +\[(?P<thread>[^\]]*)\] (?P<logger>{_NAME}):\d+ - (?P<text>.*)"),
    # Logback's default, and those like it
    _layout(rf"STAMP +\[(?P<thread>[^\]]*)\] LEVEL +(?P<logger>{_NAME})(?: -)? *[-:] (?P<text>.*)"),
    _layout(rf"STAMP +LEVEL +\[(?P<thread>[^\]]*)\] (?P<logger>{_NAME})(?: -)? *[-:] (?P<text>.*)"),
    # Python's logging with asctime: the name before or after the level
    _layout(rf"STAMP(?: -|:)? \[?LEVEL\]?(?: -|:)? +{_PYTHON}(?: -|:)? +(?P<text>.*)"),
    _layout(rf"STAMP(?: -|:)? +{_PYTHON}(?: -|:)? +\[?LEVEL\]?(?: -|:)? +(?P<text>.*)"),
    # Redpanda
    _layout(r"LEVEL +STAMP \[shard [^\]]*\] (?P<logger>\S+) - (?:[\w.]+:\d+ - )?(?P<text>.*)"),
    # Strimzi with Kafka to 3.9
    _layout(r"STAMP LEVEL +(?P<text>.*)"),
    _layout(r"STAMP +(?P<text>.*)"),
    # Python's logging without asctime; franz-go
    _layout(rf"LEVEL:(?P<logger>{_NAME}):(?P<text>.*)"),
    _layout(r"\[LEVEL\] (?P<text>.*)"),
)
_AMERICAN: Final = re.compile(
    rf"(?:\[{_LEVEL}\] )?(?P<stamp>\d\d/\d\d/\d{{4}} \d\d:\d\d:\d\d [AP]M) (?P<text>.*)", re.DOTALL
)
"""The dates in Python's logging HOWTO."""
_LIBRDKAFKA: Final = re.compile(
    r"%(?P<level>\d)\|(?P<seconds>\d{9,10})\.(?P<ms>\d{3})\|(?P<logger>\w+)\|(?P<name>.*?)\| "
    r"(?:\[thrd:(?P<thread>.*?)\]: )?(?P<text>.*)",
    re.DOTALL,
)
_SYSLOG: Final = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_SARAMA: Final = re.compile(
    r"(?:\[[Ss]arama\] )?(?P<stamp>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<text>.*)", re.DOTALL
)
_JUL_FIRST: Final = re.compile(r"(?P<stamp>[A-Z][a-z]{2} \d{1,2}, \d{4} \d{1,2}:\d\d:\d\d [AP]M) (?P<logger>\S+)")
_JUL: Final = re.compile(r"(?P<level>SEVERE|WARNING|INFO|CONFIG|FINE|FINER|FINEST): (?P<text>.*)", re.DOTALL)
_LOGGER: Final = re.compile(rf" \((?P<logger>{_NAME})(?::\d+)?\)(?: \[(?P<thread>[^\]]*)\])?\s*$")

_INSIDE: Final = re.compile(rf"[ :*`>|-](?=\[?{_MOMENT}\]?[ -])")
"""The front of a line inside another: after the name of a file as grep prints it, in syslog, in Markdown."""
_FRONT: Final = 300
"""So many characters may stand before it."""
_LOGFMT: Final = re.compile(r'(?P<name>[\w.-]+)=(?P<value>"(?:[^"\\]|\\.)*"|\S*)(?: |$)')
_ZAP: Final = re.compile(
    rf"(?P<ts>{_MOMENT})\t(?P<level>\w+)\t(?:[\w./@-]+:\d+\t)?(?P<msg>[^\t]+)(?:\t(?P<fields>\{{.*))?$"
)

_TEXTS: Final = ("message", "log", "msg", "MESSAGE")
_TIMES: Final = ("@timestamp", "time", "timestamp", "ts", "instant")
_LEVELS: Final = ("log.level", "level", "severity")
_LOGGERS: Final = ("log.logger", "logger_name", "loggerName", "logger")
_CUT_JSON: Final = re.compile(r'"(?:message|log|msg)":\s*"(?P<text>(?:[^"\\]|\\.)*)')
_QUARTER_MS: Final = 15 * 60 * 1000
_NEAR_MS: Final = 5 * 60 * 1000
"""A collector reads a line within minutes, so that its stamp shows the zone of the line."""
_DEEPEST: Final = 5


class Layouts:
    """Reader of layouts. Stamps without a zone are read in `zone`."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone

    def line(self, file: str, number: int, raw: bytes, before: bytes = b"") -> Line:
        """Return a line without its layout; `before` is the line before it, which has the stamp of some layouts."""
        text = _COLOUR.sub("", raw.decode("utf-8", "replace")).rstrip("\r\n")
        text, outer, parts = self._unwrapped(text)
        text, inner, own = self._stripped(text, before)
        parts = {**parts, **own}
        stamp = inner or outer
        if inner is not None and outer is not None and not inner.zoned:
            stamp = _in_zone_of(inner, outer)
        time, resolution, zoned = stamp if stamp is not None else (None, 1, False)
        level, logger = parts.pop("level", ""), parts.pop("logger", "")
        return Line(file, number, time, resolution, zoned, level, logger, text, parts)

    def _unwrapped(self, text: str) -> tuple[str, Stamp | None, dict[str, str]]:
        """Return the text without wrappers of containers and collectors, their stamp and their fields."""
        stamp: Stamp | None = None
        fields: dict[str, str] = {}
        for _ in range(_DEEPEST):
            parsed = _structured(text)
            if parsed is not None:
                text, own, moment = parsed
                fields.update(own)
                stamp = (self._stamp(moment) if moment else None) or stamp
                continue
            if text.startswith("{"):
                break
            copied = _KIBANA.match(text)
            if copied is not None:
                text = text[copied.end() :]
                stamp = stamp or self._stamp(_copied(copied))
                continue
            match = next(filter(None, (each.match(text) for each in (_COMPOSE, _POD, _CRI, _COLLECTED))), None)
            if match is None:
                break
            text = text[match.end() :]
            moment = _groups_of(match).get("stamp", "")
            stamp = (self._stamp(moment) if moment else None) or stamp
        return text.rstrip("\r\n"), stamp, fields

    def _stripped(self, text: str, before: bytes) -> tuple[str, Stamp | None, dict[str, str]]:
        """Return the text without the layout of its program, its stamp and its fields."""
        match = _LIBRDKAFKA.match(text)
        if match is not None:
            fields = _groups_of(match)
            time = 1000 * int(fields.pop("seconds")) + int(fields.pop("ms"))
            fields["level"] = _SYSLOG[min(int(fields["level"]), 7)]
            return fields.pop("text", ""), Stamp(time, 1, True), fields
        match = _SARAMA.match(text)
        if match is not None:
            return match["text"], self._stamp(match["stamp"].replace("/", "-")), {"logger": "sarama"}
        match = _AMERICAN.match(text)
        if match is not None:
            fields = _groups_of(match)
            month, day, rest = fields.pop("stamp").split("/")
            return fields.pop("text"), self._twelve_hours(f"{month} {day}, {rest}"), fields
        match = _JUL.match(text)
        first = _JUL_FIRST.match(before.decode("utf-8", "replace")) if match is not None else None
        if match is not None and first is not None:
            return (
                match["text"],
                # Not by strptime("%b"), which depends on the locale.
                self._twelve_hours(f"{_month(first['stamp'])} {first['stamp'][4:]}"),
                {"level": match["level"], "logger": first["logger"]},
            )
        match = _layout_of(text)
        stamp: Stamp | None = None
        fields = {}
        if match is not None:
            fields = _groups_of(match)
            stamp = self._stamp(fields.pop("stamp")) if "stamp" in fields else None
            text = fields.pop("text", "")
        end = _LOGGER.search(text)
        if end is not None and "logger" not in fields:
            text = text[: end.start()]
            fields.update(_groups_of(end))
        return text, stamp, fields

    def _stamp(self, moment: str) -> Stamp | None:
        if moment.replace(".", "", 1).isascii() and moment.replace(".", "", 1).isdigit():
            seconds = float(moment)
            # Seconds or milliseconds since 1970.
            return Stamp(round(seconds * 1000 if seconds < 1e11 else seconds), 1, True) if seconds < 1e14 else None
        try:
            parsed = datetime.fromisoformat(moment)
        except ValueError:
            return None
        return self._of(parsed, 1 if "." in moment or "," in moment else 1000)

    def _twelve_hours(self, moment: str) -> Stamp | None:
        try:
            return self._of(datetime.strptime(moment, "%m %d, %Y %I:%M:%S %p"), 1000)
        except ValueError:
            return None

    def _of(self, moment: datetime, resolution: int) -> Stamp | None:
        zoned = moment.tzinfo is not None
        try:
            seconds = (moment if zoned else moment.replace(tzinfo=self._zone)).timestamp()
        except (OverflowError, ValueError):
            return None
        return Stamp(round(1000 * seconds), resolution, zoned)


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _month(name: str) -> str:
    """Return the number of a month by the first letters of its English name, two digits; 00 if it is none."""
    return f"{_MONTHS.index(name[:3].title()) + 1:02}" if name[:3].title() in _MONTHS else "00"


def _copied(match: re.Match[str]) -> str:
    """Return a stamp of Kibana in the form of ISO 8601."""
    return f"{match['year']}-{_month(match['month'])}-{int(match['day']):02}T{match['hours']}"


def _in_zone_of(inner: Stamp, outer: Stamp) -> Stamp:
    """Return a stamp without a zone in the zone that a collector's stamp of the same line shows."""
    if not outer.zoned:
        return inner
    quarters = round((inner.time - outer.time) / _QUARTER_MS) * _QUARTER_MS
    if abs(inner.time - outer.time - quarters) > _NEAR_MS or abs(quarters) > 26 * 4 * _QUARTER_MS:
        return inner
    return Stamp(inner.time - quarters, inner.resolution, True)


def _layout_of(text: str) -> re.Match[str] | None:
    """Return the match of the layout of a line, perhaps inside another line; None if it has none."""
    match = next(filter(None, (each.match(text) for each in _LAYOUTS)), None)
    inside = None if match is not None else _INSIDE.search(text, 0, _FRONT)
    if inside is None:
        return match
    part = text[inside.end() :].rstrip("*`")
    return next(filter(None, (each.match(part) for each in _LAYOUTS)), None)


def _groups_of(match: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _structured(text: str) -> tuple[str, dict[str, str], str] | None:
    """Return the text, the fields and the stamp of a line of JSON, of logfmt or of zap's console; None if it is none of
    them, or has no text.
    """
    if text.startswith("{"):
        return _json(text)
    if text.startswith(("time=", "level=", "ts=")):
        values = {name: _unquoted(value) for name, value in _LOGFMT.findall(text)}
        return _sorted_out(values)
    match = _ZAP.match(text)
    if match is None:
        return _with_tail(text)
    values = {"ts": match["ts"], "level": match["level"], "msg": match["msg"]}
    with suppress(orjson.JSONDecodeError):
        values.update(_flat(orjson.loads(match["fields"] or "{}")))
    return _sorted_out(values)


def _with_tail(text: str) -> tuple[str, dict[str, str], str] | None:
    """Return the text, the fields and the stamp of a message with JSON behind it; None if that has no stamp."""
    match = _TAIL.match(text) if text.endswith("}") else None
    if match is None:
        return None
    try:
        fields = dict(_flat(orjson.loads(match["fields"])))
    except orjson.JSONDecodeError:
        return None
    return _sorted_out({**fields, "message": match["text"]}) if any(each in fields for each in _TIMES) else None


def _unquoted(value: str) -> str:
    """Return a value of logfmt without its quotes."""
    try:
        return str(orjson.loads(value)) if value.startswith('"') else value
    except orjson.JSONDecodeError:
        return value.strip('"')


def _json(text: str) -> tuple[str, dict[str, str], str] | None:
    """Return the text, the fields and the stamp of a line of JSON, perhaps cut; None if it has no text."""
    try:
        # What stands after the object, as in a pasted list, does no harm.
        value = json.JSONDecoder().raw_decode(text)[0]
    except (json.JSONDecodeError, RecursionError):
        cut = _CUT_JSON.search(text)
        if cut is None:
            return None
        try:
            return orjson.loads(f'"{cut["text"]}"'), {}, ""
        except orjson.JSONDecodeError:
            return cut["text"], {}, ""
    return _sorted_out(dict(_flat(value))) if isinstance(value, dict) else None


def _sorted_out(values: dict[str, str]) -> tuple[str, dict[str, str], str] | None:
    """Return the text, the other fields and the stamp of the values of a line; None if it has no text."""
    message = next((values.pop(name) for name in _TEXTS if name in values), None)
    if message is None:
        return None
    moment = next((values.pop(name) for name in _TIMES if name in values), "")
    for name, names in (("level", _LEVELS), ("logger", _LOGGERS)):
        value = next((values.pop(each) for each in names if each in values), "")
        if value:
            values[name] = value
    return message, values, moment


def _flat(value: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the scalar fields of an object, those of inner objects by a dotted name."""
    for name, each in value.items():
        if isinstance(each, dict) and depth < _DEEPEST:
            yield from _flat(each, f"{prefix}{name}.", depth + 1)
        elif isinstance(each, bool):
            yield f"{prefix}{name}", str(each).lower()
        elif isinstance(each, (str, int, float)):
            yield f"{prefix}{name}", str(each)

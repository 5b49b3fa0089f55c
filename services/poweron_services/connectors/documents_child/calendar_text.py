"""The reader of ICS: events and tasks of a calendar, such as invitations, with time, place, recurrence and attendees.

The format is that of RFC 5545. Times are not converted: each appears as in the file, with the name of its time zone.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.plain_text import decoded
from poweron_services.connectors.documents_child.readers import Fact, Part

KINDS: Final = {"VEVENT": "event", "VTODO": "task", "VJOURNAL": "entry"}
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
DAYS: Final = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}
PERIODS: Final = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
ORDINALS: Final = {"1": "first ", "2": "second ", "3": "third ", "4": "fourth ", "5": "fifth ", "-1": "last "}

_FOLD: Final = re.compile(r"\r?\n[ \t]")
_LINE: Final = re.compile(
    r'(?P<name>[A-Za-z0-9-]+)(?P<parameters>(?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:]*))*):(?P<value>.*)'
)
_PARAMETER: Final = re.compile(r';([A-Za-z0-9-]+)=(?:"([^"]*)"|([^";:]*))')
_ESCAPE: Final = re.compile(r"\\([\\;,nN])")
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_DURATION: Final = re.compile(r"\+?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:\d+S)?)?")
_ORDINAL_DAY: Final = re.compile(r"(-?\d+)?([A-Z]{2})")


@dataclass(frozen=True, slots=True)
class Property:
    """A line of a component: its raw value, and its parameters, keyed by name in upper case."""

    value: str
    parameters: dict[str, str]

    @property
    def text(self) -> str:
        """The unescaped value on one line."""
        plain = _ESCAPE.sub(lambda match: ", " if match[1] in "nN" else match[1], self.value)
        return " ".join(plain.split())


@dataclass(slots=True)
class Component:
    kind: str
    properties: dict[str, list[Property]] = field(default_factory=dict)

    def first(self, name: str) -> Property | None:
        return next(iter(self.properties.get(name, ())), None)

    def text(self, name: str) -> str:
        prop = self.first(name)
        return prop.text if prop else ""


@dataclass(frozen=True, slots=True)
class Moment:
    """A day, or a time in a time zone whose name may be empty."""

    day: dt.date
    time: dt.time | None = None
    zone: str = ""

    def __str__(self) -> str:
        day = f"{self.day.day} {MONTHS[self.day.month - 1]} {self.day.year}"
        return f"{day} {self.time:%H:%M}" if self.time else day


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    text, notes = decoded(data, limits)
    components = list(_components(_FOLD.sub("", text).splitlines()))
    method = next((component.text("METHOD") for component in components if component.kind == "VCALENDAR"), "")
    events = [component for component in components if component.kind in KINDS]
    yield Fact("entries", str(len(events)))
    for number, event in enumerate(events, start=1):
        yield Section(f"{KINDS[event.kind]} {number}", "\n".join(_event_lines(event, method)))
    yield from notes


def _components(lines: Iterable[str]) -> Iterator[Component]:
    """Yield each component when it ends; lines of a nested one, such as an alarm, belong only to that one."""
    inside: list[Component] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, value = match["name"].upper(), match["value"]
        if name == "BEGIN":
            inside.append(Component(value.strip().upper()))
        elif name == "END":
            if inside:
                yield inside.pop()
        elif inside:
            parameters = {
                parameter[1].upper(): parameter[2] or parameter[3] or ""
                for parameter in _PARAMETER.finditer(match["parameters"])
            }
            inside[-1].properties.setdefault(name, []).append(Property(value, parameters))


def _event_lines(event: Component, method: str) -> Iterator[str]:
    is_cancelled = "CANCEL" in method.upper() or event.text("STATUS").upper() == "CANCELLED"
    yield f"### {event.text('SUMMARY') or KINDS[event.kind].capitalize()}{' (cancelled)' if is_cancelled else ''}"
    fields = {
        "When": _when(event),
        "Due": _moment_text(event.first("DUE")),
        "Where": event.text("LOCATION"),
        "Repeats": _repeats(event),
        "Except on": ", ".join(str(moment) for prop in event.properties.get("EXDATE", ()) for moment in _moments(prop)),
        "Organizer": _person(event.first("ORGANIZER")),
        "Invited": "; ".join(map(_person, event.properties.get("ATTENDEE", ()))),
        "Link": event.text("URL"),
        "Description": event.text("DESCRIPTION"),
    }
    yield from (f"- {name}: {text}" for name, text in fields.items() if text)


def _when(event: Component) -> str:
    start = _moment(event.first("DTSTART"))
    if start is None:
        return ""
    end = _moment(event.first("DTEND")) or _after(start, event.text("DURATION"))
    if start.time is None:
        last = end.day - dt.timedelta(days=1) if end and end.time is None else start.day  # the end is exclusive
        return f"{start} to {Moment(last)}, all day" if last > start.day else f"{start}, all day"
    zone = f" {start.zone}" if start.zone else ""
    if end is None or end.time is None or end == start:
        return f"{start}{zone}"
    if end.zone != start.zone and end.zone:
        return f"{start}{zone} to {end} {end.zone}"
    return f"{start} to {f'{end.time:%H:%M}' if end.day == start.day else end}{zone}"


def _moment_text(prop: Property | None) -> str:
    moment = _moment(prop)
    return f"{moment} {moment.zone}".strip() if moment else ""


def _moment(prop: Property | None) -> Moment | None:
    return next(_moments(prop), None) if prop else None


def _moments(prop: Property) -> Iterator[Moment]:
    for match in _TIME.finditer(prop.value):
        year, month, day, hour, minute, utc = match.groups()
        try:
            time = dt.time(int(hour), int(minute)) if hour else None
            yield Moment(
                dt.date(int(year), int(month), int(day)), time, "UTC" if utc else prop.parameters.get("TZID", "")
            )
        except ValueError:
            continue


def _after(start: Moment, duration: str) -> Moment | None:
    match = _DURATION.fullmatch(duration)
    if match is None:
        return None
    weeks, days, hours, minutes = (int(number or 0) for number in match.groups())
    length = dt.timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
    end = dt.datetime.combine(start.day, start.time or dt.time()) + length
    return Moment(end.date(), end.time() if start.time else None, start.zone)


def _repeats(event: Component) -> str:
    """Describe the recurrence rule in words, such as "every Thursday, until 1 May 2026" or "every day, 5 times"."""
    prop = event.first("RRULE")
    rule = dict(part.split("=", 1) for part in prop.value.upper().split(";") if "=" in part) if prop else {}
    period = PERIODS.get(rule.get("FREQ", ""))
    if period is None or prop is None:
        return prop.value if prop else ""
    days = [_ORDINAL_DAY.fullmatch(day) for day in rule.get("BYDAY", "").split(",")]
    weekdays = [f"{ORDINALS.get(day[1] or '', '')}{DAYS[day[2]]}" for day in days if day and day[2] in DAYS]
    interval = rule.get("INTERVAL", "1")
    text = f"every {period}" if interval == "1" else f"every {interval} {period}s"
    if weekdays and text == "every week":
        text = f"every {' and '.join(weekdays)}"
    elif weekdays:
        text += f" on {'the ' if any(day and day[1] for day in days) else ''}{' and '.join(weekdays)}"
    if rule.get("BYMONTHDAY"):
        text += f" on day {rule['BYMONTHDAY']}"
    if rule.get("BYMONTH", "").isdecimal() and 1 <= int(rule["BYMONTH"]) <= len(MONTHS):
        text += f" in {MONTHS[int(rule['BYMONTH']) - 1]}"
    until = next(_moments(Property(rule.get("UNTIL", ""), {})), None)
    ends = f", until {Moment(until.day)}" if until else f", {rule['COUNT']} times" if "COUNT" in rule else ""
    return text + ends


def _person(prop: Property | None) -> str:
    if prop is None:
        return ""
    address = re.sub("^mailto:", "", prop.text, flags=re.IGNORECASE)
    name = prop.parameters.get("CN", "")
    return f"{name} <{address}>" if name and name != address else address

"""The words of notices: what happened, why, what to do, and where to look."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from eventlake.control.notify.events import Severity
from eventlake.control.notify.notices import Notice
from eventlake.errors import (
    Conflict,
    EventLakeError,
    InsufficientPermissions,
    InvalidSettings,
    LimitExceeded,
    Unavailable,
)
from eventlake.model.values import FrozenModel

FIXES: Mapping[str, str] = {
    InvalidSettings.code: "Correct the setting or path that the message names. The next sync lands "
    "everything that came meanwhile.",
    InsufficientPermissions.code: "Grant the permission that the message names, then check the "
    "lake. The next sync lands everything that came meanwhile.",
    LimitExceeded.code: "Raise the limit that the message names, or skip events. The other tables "
    "were landed.",
    Conflict.code: "Nothing: another run was faster, and it is tried again.",
    Unavailable.code: "Look whether the store, the catalog or the cluster answers. It is tried "
    "again after 1, 5 and 25 minutes, and at the next slot.",
    EventLakeError.code: "Report it with the log that the message names: it is a bug in EventLake.",
}
"""What a person can do about an error, by its code."""
MAX_CAUSE_CHARS = 2000


class Message(FrozenModel):
    """A notice as people read it."""

    subject: str
    """One line."""
    text: str
    """A sentence or two."""
    facts: dict[str, str]
    """Source, error, cause, what to do, link: what there is, in this order."""
    severity: Severity

    @property
    def body(self) -> str:
        """The text and the facts, line by line."""
        width = max(map(len, self.facts), default=0) + 1
        facts = [f"{name + ':':<{width}} {value}" for name, value in self.facts.items()]
        return "\n".join([self.text, "", *facts, ""])


def write_message(notice: Notice, url: str) -> Message:
    """The message of a notice; `url` is the server's, for the link to the run."""
    data, source = notice.data, notice.source or ""
    subject, text = _TEXTS[notice.event](source, data)
    facts = {"Source": source} if source else {}
    if code := data.get("error_code"):
        facts["Error"] = code
    if cause := data.get("error"):
        facts["Cause"] = " ".join(str(cause).split())[:MAX_CAUSE_CHARS]
    if fix := data.get("fix") or (FIXES.get(code or "") if notice.event != "recovered" else ""):
        facts["What to do"] = fix
    if run := data.get("recovered_by") or data.get("run"):
        facts["Run"] = f"{url}/runs/{run}" if url else str(run)
    if notice.event == "recovered":
        facts = {name: facts[name] for name in ("Source", "Run") if name in facts}
    return Message(
        subject=" ".join(f"[EventLake] {subject}".split()),
        text=text,
        facts=facts,
        severity=notice.severity,
    )


def format_span(span: timedelta) -> str:
    """A duration in one unit, or two: `5 h`, `3 d 4 h`, `40 s`."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    days, hours = divmod(seconds // 3600, 24)
    if not days:
        return f"{hours} h"
    return f"{days} d {hours} h" if hours else f"{days} d"


def format_count(number: int) -> str:
    """A number with three digits or fewer: `950`, `1.2 M`."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}".replace(".0 ", " ")
    return str(number)


def _parse(moment: Any) -> datetime:
    return datetime.fromisoformat(str(moment))


def _minute(moment: Any) -> str:
    return f"{_parse(moment):%Y-%m-%d %H:%M} UTC"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


Texts = tuple[str, str]
Data = Mapping[str, Any]


def _sync_failed(source: str, data: Data) -> Texts:
    failures = data["failures"]
    if failures == 1:
        return (
            f"{source}: sync failed",
            (
                f"A sync of {source} failed. Its events are kept in the "
                "archive, and land with the next sync that succeeds."
            ),
        )
    since = _minute(data["since"])
    return (
        f"{source}: {failures} syncs failed in a row",
        (
            f"The {_ordinal(failures)} sync of {source} in a row failed; the first was at {since}. "
            "Its events are kept in the archive, and land with the next sync that succeeds."
        ),
    )


def _sync_partial(source: str, _: Data) -> Texts:
    return (
        f"{source}: sync partial",
        (
            f"A sync of {source} landed all events, and the catalog "
            "refused a table. The next syncs try it again; you are told once until one finishes."
        ),
    )


def _recovered(source: str, data: Data) -> Texts:
    failures, rows = data["failures"], data.get("rows", 0)
    span = format_span(_parse(data["until"]) - _parse(data["since"]))
    many = "1 failure" if failures == 1 else f"{failures} failures"
    caught_up = f"{format_count(rows)} rows caught up"
    return f"{source}: recovered", f"{source} recovered after {many}, {span}, {caught_up}."


def _stale(source: str, data: Data) -> Texts:
    last = (
        f"the last one succeeded at {_minute(data['succeeded_at'])}"
        if data.get("succeeded_at")
        else "none has succeeded yet"
    )
    return (
        f"{source}: no sync since it was due",
        f"A sync of {source} was due at {_minute(data['due'])}, and {last}.",
    )


def _silent(source: str, data: Data) -> Texts:
    return (
        f"{source}: nothing received",
        (
            f"Syncs of {source} succeed, but the newest event was received at "
            f"{_minute(data['newest'])}."
        ),
    )


def _fresh(source: str, data: Data) -> Texts:
    span = format_span(_parse(data["until"]) - _parse(data["since"]))
    return f"{source}: fresh again", f"{source} is fresh again after {span}."


def _quarantine_share(source: str, data: Data) -> Texts:
    count, received = data["quarantined"], data["received"]
    return (
        f"{source}: {100 * count / received:.1f} % quarantined",
        (
            f"{format_count(count)} of {format_count(received)} lines of a sync of {source} are "
            "invalid. They are kept in the quarantine, with reasons."
        ),
    )


def _run_slow(source: str, data: Data) -> Texts:
    now, usual = (format_span(timedelta(seconds=data[key])) for key in ("seconds", "median"))
    kind = data["kind"]
    return (
        f"{source}: {kind} is slow",
        f"A {kind} of {source} has run for {now}; the median is {usual}.",
    )


def _run_ended(source: str, data: Data) -> Texts:
    kind, state, rows = data["kind"], data["state"], data.get("rows", 0)
    return (
        f"{source}: {kind} {state}",
        f"The {kind} of {source} is {state}; it landed {format_count(rows)} rows.",
    )


def _clock_set_back(source: str, data: Data) -> Texts:
    return (
        f"{source}: a clock was set back",
        (
            f"The server's clock was ahead at {_minute(data['considered_to'])}, and was set back "
            f"to {_minute(data['now'])}. The schedule goes on from there."
        ),
    )


def _server_away(_: str, data: Data) -> Texts:
    span = format_span(_parse(data["until"]) - _parse(data["since"]))
    return (
        f"the server was away for {span}",
        (
            f"No server ran from {_minute(data['since'])} to {_minute(data['until'])}. Slots of "
            "that time run once now. Events that were sent meanwhile were not accepted."
        ),
    )


def _schema_changed(source: str, data: Data) -> Texts:
    parts = [
        _name_some("new table", data["tables"], data["table_count"]),
        _name_some("new column", data["columns"], data["column_count"]),
        f"{format_count(data['rescued'])} rescued values" if data["rescued"] else "",
    ]
    return f"{source}: schema changed", f"{source} has {'; '.join(filter(None, parts))}."


def _name_some(word: str, names: list[str], count: int) -> str:
    if not count:
        return ""
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"{count} {word}{'s' if count > 1 else ''}: {', '.join(names)}{more}"


def _settings_changed(source: str, data: Data) -> Texts:
    return (
        f"{source or data['object']}: {data['action']}",
        f"{data['actor']} did {data['action']} on {data['object']}.",
    )


def _test(_: str, data: Data) -> Texts:
    return "test", f"This is a test of the channel {data['channel']}, sent by {data['actor']}."


_TEXTS: Mapping[str, Callable[[str, Data], Texts]] = {
    "sync_failed": _sync_failed,
    "sync_partial": _sync_partial,
    "recovered": _recovered,
    "stale": _stale,
    "silent": _silent,
    "fresh": _fresh,
    "quarantine_share": _quarantine_share,
    "run_slow": _run_slow,
    "replay_finished": _run_ended,
    "replay_failed": _run_ended,
    "erasure_finished": _run_ended,
    "erasure_failed": _run_ended,
    "clock_set_back": _clock_set_back,
    "server_away": _server_away,
    "schema_changed": _schema_changed,
    "settings_changed": _settings_changed,
    "test": _test,
}

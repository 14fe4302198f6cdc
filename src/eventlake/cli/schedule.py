"""Commands of the control plane: when sources are synced."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from eventlake.cli import show
from eventlake.cli.control import ControlOptions, Slug, quote_url
from eventlake.cli.options import expand_option_groups
from eventlake.errors import InvalidSettings
from eventlake.model.durations import parse_duration


@expand_option_groups
def enable(options: ControlOptions, source: Slug) -> None:
    """Sync a source by its schedule from now on."""
    with options.open() as client:
        options.print(client.ask("POST", f"/sources/{quote_url(source)}/enable"), _print_schedule)


@expand_option_groups
def disable(options: ControlOptions, source: Slug) -> None:
    """Do not sync a source by its schedule; its events are still accepted."""
    with options.open() as client:
        options.print(client.ask("POST", f"/sources/{quote_url(source)}/disable"), _print_schedule)


@dataclass(frozen=True)
class ScheduleOptions:
    """What changes of a schedule; None for what stays."""

    every: Annotated[
        str | None, typer.Option(help="The time between syncs, such as 15m, 2h, 1d.")
    ] = None
    cron: Annotated[str | None, typer.Option(help="Five fields, such as '0 6 * * *'.")] = None
    manual: Annotated[bool, typer.Option("--manual", help="Only sync on request.")] = False
    zone: Annotated[
        str | None, typer.Option(help="The time zone of the cron expression and quiet hours.")
    ] = None
    quiet_hours: Annotated[
        str | None,
        typer.Option(help="A time of day without syncs, such as 22:00-06:00; '' for none."),
    ] = None
    spread: Annotated[
        str | None,
        typer.Option(
            help="Delay each source with a cron expression by its own time of less than this, "
            "such as 10m; '' for none."
        ),
    ] = None
    limit: Annotated[
        str | None, typer.Option(help="Cancel a run that takes longer, such as 2h; '' for none.")
    ] = None

    @property
    def changes(self) -> dict[str, Any]:
        """The settings to change, as the API names them; raises InvalidSettings."""
        kinds = [self.every is not None, self.cron is not None, self.manual]
        if sum(kinds) > 1:
            raise InvalidSettings("--every, --cron and --manual: set one of them")
        if self.cron == "":
            raise InvalidSettings("--cron is empty: give five fields such as '0 6 * * *'")
        changes: dict[str, Any] = {}
        if any(kinds):
            seconds = 0 if self.every is None else _parse_seconds("--every", self.every)
            if self.every is not None and not seconds:
                raise InvalidSettings(f"--every is {self.every!r}: use --manual for no schedule")
            changes = {"every_seconds": seconds, "cron": self.cron or ""}
        texts = {"zone": self.zone, "quiet": self.quiet_hours}
        changes |= {name: text for name, text in texts.items() if text is not None}
        if self.spread is not None:
            changes["spread_seconds"] = _parse_seconds("--spread", self.spread or "0s")
        if self.limit is not None:
            changes["max_seconds"] = _parse_seconds("--limit", self.limit or "0s")
        return changes


@expand_option_groups
def schedule(options: ControlOptions, source: Slug, what: ScheduleOptions) -> None:
    """Change when a source is synced, or show it. What is not named stays as it is."""
    path, changes = f"/schedules/{quote_url(source)}", what.changes
    with options.open() as client:
        found = client.ask("GET", path)
        if changes:
            rule = {**found["schedule"], **changes}
            if what.zone is not None and not (rule["cron"] or rule["quiet"]):
                raise InvalidSettings(
                    f"--zone is for --cron or --quiet-hours, and {found['source']} has neither"
                )
            # A change by someone else since then is refused: it would be lost.
            found = client.ask("PUT", path, rule, **{"if-match": f'"{found["version"]}"'})
    options.print(found, _print_schedule)


def _parse_seconds(option: str, text: str) -> int:
    """The seconds of a text such as 15m; raises InvalidSettings for others."""
    try:
        return int(parse_duration(text).total_seconds())
    except ValueError:
        message = f"{option} is {text!r}: give a time such as 15m, 2h or 1d"
        raise InvalidSettings(message) from None


def _print_schedule(schedule: Mapping[str, Any]) -> None:
    state = f"next sync {schedule['next_slot']}" if schedule["next_slot"] else "no sync is due"
    enabled = "enabled" if schedule["enabled_at"] else "disabled"
    parts = [*_describe_rule(schedule["schedule"]), enabled, state]
    show.print_line(f"{schedule['source']}: {', '.join(parts)}")


def _describe_rule(rule: Mapping[str, Any]) -> Iterator[str]:
    """When syncs run, then each of the other settings that is set."""
    if rule["cron"]:
        yield f"at {rule['cron']} ({rule['zone']})"
    else:
        seconds = rule["every_seconds"]
        yield f"every {seconds} seconds" if seconds else "on request"
    if rule["quiet"]:
        yield f"quiet hours {rule['quiet']} ({rule['zone']})"
    if rule["spread_seconds"]:
        yield f"spread over {rule['spread_seconds']} seconds"
    if rule["max_seconds"]:
        yield f"limit {rule['max_seconds']} seconds"

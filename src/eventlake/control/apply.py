"""Apply a declaration: make the workspace what a file says, in one transaction.

The changes are made, read back and compared with what was before, so that the plan shows what
happens; for a plan alone, they are undone.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from eventlake.control.apply_channels import apply_channel, list_missing_channels
from eventlake.control.connections import (
    change_connection,
    connect,
    get_connection,
    validate_connection,
)
from eventlake.control.database import Session
from eventlake.control.declaration import (
    SET_ELSEWHERE,
    Declaration,
    DeclaredLake,
    DeclaredSettings,
    DeclaredSource,
    check_reference,
    read_declaration,
)
from eventlake.control.freshness import set_limits
from eventlake.control.lakes import (
    add_lake,
    change_lake,
    get_lake,
    list_lakes,
    validate_lake,
)
from eventlake.control.preferences import set_heartbeat, set_preferences
from eventlake.control.schedules import disable, enable, get_schedule, set_schedule
from eventlake.control.sources import (
    Source,
    add_source,
    add_write_key,
    get_source,
    revoke_write_key,
    set_source_enabled,
)
from eventlake.control.vault import Vault
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.lakes.kinds import settings_model
from eventlake.model.values import FrozenModel

GENERATED = "(random)"
SECTIONS = {"lakes": "lake", "sources": "source", "channels": "channel"}
"""The word for one object of each section, as the audit log has it."""
SETTINGS = "settings"
"""The section of which there is one."""


class FieldChange(FrozenModel):
    """A field before and after, as in JSON; null where there is none."""

    field: str
    before: Any
    after: Any


class PlannedChange(FrozenModel):
    """An object that is added or changed."""

    object: str
    """Such as `source:web`."""
    action: Literal["add", "change"]
    fields: tuple[FieldChange, ...]


class Refusal(FrozenModel):
    """An object that cannot become what the file says, and why."""

    object: str
    reason: str


class Plan(FrozenModel):
    """What a declaration changes."""

    changes: tuple[PlannedChange, ...]
    refused: tuple[Refusal, ...]
    """If anything is refused, nothing is changed."""
    notes: tuple[str, ...] = ()
    is_applied: bool = False


class Target(NamedTuple):
    """Where a declaration is applied."""

    session: Session
    vault: Vault
    now: datetime


class Effect(NamedTuple):
    """An object before and after, for the audit log."""

    action: str
    object: str
    before: BaseModel | None
    after: BaseModel


def apply_declaration(
    target: Target, declared: Declaration, *, dry_run: bool = False
) -> tuple[Plan, list[Effect]]:
    """Change the workspace within the transaction; return the plan, and what to log of it.

    With `dry_run`, and if anything is refused, nothing has changed afterwards.
    """
    undo = target.session.begin_nested()
    before = read_declaration(target.session)
    refused = list(_apply_all(target, before, declared))
    after = read_declaration(target.session)
    changes = tuple(_list_changes(before, after, declared))
    is_kept = not dry_run and not refused
    undo.commit() if is_kept else undo.rollback()
    notes = (
        *_list_notes(declared, after),
        *_list_revoked(before, after),
        *_list_unnamed(before, declared),
    )
    plan = Plan(changes=changes, refused=tuple(refused), notes=notes, is_applied=is_kept)
    return plan, list(_list_effects(before, after, changes))


def _apply_all(target: Target, before: Declaration, declared: Declaration) -> Iterator[Refusal]:
    """Apply object by object; one that is refused does not keep the others from being tried."""
    steps: dict[str, Callable[[], None]] = {}
    for name, lake in declared.lakes.items():
        steps[f"lake:{name}"] = partial(_apply_lake, target, name, lake)
    for name, source in declared.sources.items():
        was = before.sources.get(name)
        steps[f"source:{name}"] = partial(_apply_source, target, name, was, source)
    for name, channel in declared.channels.items():
        steps[f"channel:{name}"] = partial(apply_channel, *target, name, channel)
    if declared.settings and declared.settings != before.settings:
        steps[SETTINGS] = partial(_apply_settings, target, before.settings, declared.settings)
    for name, step in steps.items():
        savepoint = target.session.begin_nested()
        try:
            step()
            savepoint.commit()
        except EventLakeError as problem:
            savepoint.rollback()
            yield Refusal(object=name, reason=" ".join(str(problem).split()))


def _apply_lake(target: Target, name: str, declared: DeclaredLake) -> None:
    session, vault = target.session, target.vault
    secrets = _check_secrets(declared)
    if name not in {one.slug for one in list_lakes(session)}:
        values = {**declared.settings, **secrets}
        add_lake(session, name, declared.kind, values, vault, target.now)
        return
    lake = get_lake(session, name)
    if lake.kind != declared.kind:
        raise InvalidSettings(
            f"kind is {lake.kind!r} and cannot become {declared.kind!r}: add a lake of another name"
        )
    settings, _ = validate_lake(lake.kind, declared.settings)
    new = {name: secret for name, secret in secrets.items() if lake.secrets.get(name) != secret}
    if new or settings != lake.settings:
        removed = dict.fromkeys(lake.settings.keys() - settings.keys())
        change_lake(session, name, {**removed, **settings, **new}, lake.version, vault)


def _check_secrets(declared: DeclaredLake) -> dict[str, str]:
    """The references; raises InvalidSettings for a secret itself, without showing it."""
    known = settings_model(declared.kind).secrets
    for name, secret in declared.secrets.items():
        if name not in known:
            raise InvalidSettings(f"{name} is not a secret of a lake of the kind {declared.kind}")
        check_reference(name, secret, "eventlake lake set")
    if inside := sorted(known.keys() & declared.settings.keys()):
        raise InvalidSettings(f"{inside[0]} is a secret: it belongs in `secrets`, as a reference")
    return {name: one for name, one in declared.secrets.items() if one != SET_ELSEWHERE}


def _apply_source(
    target: Target, name: str, was: DeclaredSource | None, declared: DeclaredSource
) -> None:
    session, keys = target.session, declared.write_keys
    if was is None:
        first = keys[0] if keys else ""
        add_source(session, name, target.now, source_id=declared.id, write_key=first)
    elif declared.id not in ("", was.id):
        raise InvalidSettings(f"id is {was.id!r}, and ids cannot change: leave it out")
    source = get_source(session, name)
    if keys is not None:
        _apply_keys(target, source, keys)
    accepts = declared.accepts_events
    if accepts is not None and accepts != source.enabled:
        set_source_enabled(session, name, accepts)
    if declared.limits is not None and declared.limits != (was.limits if was else None):
        set_limits(session, name, declared.limits)
    is_connected = bool(was and was.lake)
    if declared.lake or (is_connected and "settings" in declared.model_fields_set):
        _apply_connection(target, source, was, declared)
    if declared.lake or is_connected:
        _apply_schedule(target, name, declared)
    elif declared.settings or declared.schedule or declared.syncs:
        raise InvalidSettings("settings and a schedule need a `lake`: the source has none yet")


def _apply_keys(target: Target, source: Source, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in source.write_keys:
            add_write_key(target.session, source.slug, target.now, key)
    for key in source.write_keys:
        if key not in keys:
            revoke_write_key(target.session, source.slug, key, target.now)


def _apply_connection(
    target: Target, source: Source, was: DeclaredSource | None, declared: DeclaredSource
) -> None:
    session, name = target.session, source.slug
    if was is None or not was.lake:
        connect(session, name, declared.lake, declared.settings, target.now)
        return
    if declared.lake not in ("", was.lake):
        raise InvalidSettings(
            f"it is connected to the lake {was.lake!r}, where its tables are: a source cannot move "
            "to another lake; add a new source for that"
        )
    settings, _ = validate_connection(session, source, declared.settings)
    if settings != was.settings:
        removed = dict.fromkeys(was.settings.keys() - settings.keys())
        version = get_connection(session, name).version
        change_connection(session, name, {**removed, **settings}, version)


def _apply_schedule(target: Target, name: str, declared: DeclaredSource) -> None:
    """Change a schedule only if it differs: a change starts it anew."""
    session, now = target.session, target.now
    current = get_schedule(session, name)
    if declared.schedule and declared.schedule != current.schedule:
        set_schedule(session, name, declared.schedule, now, current.version)
    is_enabled = current.enabled_at is not None
    if declared.syncs is not None and declared.syncs != is_enabled:
        (enable if declared.syncs else disable)(session, name, now)


def _apply_settings(
    target: Target, was: DeclaredSettings | None, declared: DeclaredSettings
) -> None:
    url = declared.heartbeat_url
    set_preferences(target.session, declared.to_preferences())
    if url and url not in (SET_ELSEWHERE, was.heartbeat_url if was else ""):
        check_reference("heartbeat_url", url, "PATCH /settings of the API")
        set_heartbeat(target.session, url, target.vault)


# The plan


def _list_changes(
    before: Declaration, after: Declaration, declared: Declaration
) -> Iterator[PlannedChange]:
    old, new, wanted = before.to_values(), after.to_values(), declared.to_values()
    for section, word in SECTIONS.items():
        for name, one in new[section].items():
            was = old[section].get(name)
            if one == was:
                continue
            flat = _hide_random(_flatten(one), wanted[section].get(name, {}), is_new=was is None)
            fields = tuple(_compare(_flatten(was or {}), flat))
            action: Literal["add", "change"] = "change" if was else "add"
            yield PlannedChange(object=f"{word}:{name}", action=action, fields=fields)
    if fields := tuple(_compare(old.get(SETTINGS, {}), new.get(SETTINGS, {}))):
        yield PlannedChange(object=SETTINGS, action="change", fields=fields)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as `schedule.cron`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _hide_random(
    flat: dict[str, Any], declared: Mapping[str, Any], *, is_new: bool
) -> dict[str, Any]:
    """What is made by chance is another each time: a plan does not show it."""
    random = {name for name in ("id", "write_keys") if is_new and not declared.get(name)}
    return {name: GENERATED if name in random else value for name, value in flat.items()}


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            yield FieldChange(field=name, before=before.get(name), after=after.get(name))


def _list_notes(declared: Declaration, after: Declaration) -> Iterator[str]:
    """Secrets that the file leaves to others, and that nobody has set yet."""
    for name, lake in declared.lakes.items():
        there = after.lakes[name].secrets if name in after.lakes else {}
        for secret, value in lake.secrets.items():
            if value == SET_ELSEWHERE and secret not in there:
                yield f"lake:{name} needs its {secret}: eventlake lake set {name} --set {secret}=…"
    yield from list_missing_channels(declared, after)


def _list_revoked(before: Declaration, after: Declaration) -> Iterator[str]:
    """A warning for each source that loses write keys; the plan's fields show which."""
    for name, source in before.sources.items():
        kept = after.sources[name].write_keys or ()
        if count := len(set(source.write_keys or ()) - set(kept)):
            keys = f"{count} write key{'' if count == 1 else 's'}"
            yield f"source:{name}: {keys} revoked for ever: a revoked key cannot come back"


def _list_unnamed(before: Declaration, declared: Declaration) -> Iterator[str]:
    """One line with all objects that the file leaves out, in the order of the workspace."""
    sections = []
    for section in SECTIONS:
        named = getattr(declared, section)
        if names := [name for name in getattr(before, section) if name not in named]:
            sections.append(f"{section} {', '.join(names)}")
    if sections:
        yield f"not in the file, left as they are: {'; '.join(sections)}"


def _list_effects(
    before: Declaration, after: Declaration, changes: tuple[PlannedChange, ...]
) -> Iterator[Effect]:
    sections = {word: section for section, word in SECTIONS.items()}
    for change in changes:
        word, _, name = change.object.partition(":")
        if word == SETTINGS:
            assert after.settings
            yield Effect("settings.change", "workspace", before.settings, after.settings)
            continue
        old, new = (getattr(one, sections[word]).get(name) for one in (before, after))
        yield Effect(f"{word}.{change.action}", change.object, old, new)

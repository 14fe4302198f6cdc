"""Apply the channels of a declaration: where notices are sent, and which."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from eventlake.control.database import Session
from eventlake.control.declaration import (
    SET_ELSEWHERE,
    Declaration,
    DeclaredChannel,
    DeclaredRule,
    check_reference,
)
from eventlake.control.notify.channels import (
    SECRETS,
    add_channel,
    change_channel,
    get_channel,
    list_channels,
)
from eventlake.control.notify.rules import add_rule, list_rules, remove_rule
from eventlake.control.sources import get_source
from eventlake.control.vault import Vault
from eventlake.errors import InvalidSettings


def apply_channel(
    session: Session, vault: Vault, now: datetime, name: str, declared: DeclaredChannel
) -> None:
    """Add or change a channel and its rules.

    A new one with secrets that are set elsewhere is not added: nobody can read them. Raises
    InvalidSettings for what cannot change, and for a secret itself, without showing it.
    """
    secrets = _check_secrets(declared)
    if name not in {one.name for one in list_channels(session)}:
        if SET_ELSEWHERE in declared.secrets.values():
            return
        _check_webhook(declared)
        add_channel(session, name, declared.kind, {**declared.settings, **secrets}, vault, now)
    else:
        _change(session, vault, name, declared, secrets)
    if declared.rules is not None:
        _apply_rules(session, now, name, declared.rules)


def list_missing_channels(declared: Declaration, after: Declaration) -> Iterator[str]:
    """Notes on channels that were not added, because the file does not have their secrets."""
    for name in sorted(declared.channels.keys() - after.channels.keys()):
        channel = declared.channels[name]
        hidden = [one for one, value in channel.secrets.items() if value == SET_ELSEWHERE]
        if hidden:
            yield (
                f"channel:{name} needs its {' and '.join(hidden)}: eventlake notify add "
                f"{channel.kind} … --name {name}, then apply the file again"
            )


def _check_secrets(declared: DeclaredChannel) -> dict[str, str]:
    """The references; raises InvalidSettings for a secret itself."""
    known = SECRETS[declared.kind]
    for name, secret in declared.secrets.items():
        if name not in known:
            raise InvalidSettings(
                f"{name} is not a secret of a channel of the kind {declared.kind}"
            )
        check_reference(name, secret, "eventlake notify add")
    if inside := sorted(declared.settings.keys() & set(known)):
        raise InvalidSettings(f"{inside[0]} is a secret: it belongs in `secrets`, as a reference")
    return {name: one for name, one in declared.secrets.items() if one != SET_ELSEWHERE}


def _check_webhook(declared: DeclaredChannel) -> None:
    if declared.kind == "webhook" and "secret" not in declared.secrets:
        raise InvalidSettings(
            "secret is missing, and nobody would see a random one: give env:NAME or file:/path in "
            "`secrets`, or use `eventlake notify add webhook`"
        )


def _change(
    session: Session,
    vault: Vault,
    name: str,
    declared: DeclaredChannel,
    secrets: Mapping[str, str],
) -> None:
    channel = get_channel(session, name)
    if channel.kind != declared.kind:
        raise InvalidSettings(
            f"kind is {channel.kind!r} and cannot become {declared.kind!r}: add a channel of "
            "another name"
        )
    settings = {key: value for key, value in channel.settings.items() if key != "target"}
    new = {key: one for key, one in secrets.items() if channel.secrets.get(key) != one}
    if new or settings != declared.settings:
        removed = dict.fromkeys(settings.keys() - declared.settings.keys())
        changes = {**removed, **declared.settings, **new}
        change_channel(session, name, changes, channel.version, vault)


def _apply_rules(
    session: Session, now: datetime, channel: str, declared: tuple[DeclaredRule, ...]
) -> None:
    """Remove the rules of a channel that are not declared, and add those that are missing."""
    wanted = dict.fromkeys(_resolve(session, one) for one in declared)
    for rule in list_rules(session):
        if rule.channel != channel:
            continue
        known = DeclaredRule(events=rule.events, sources=rule.sources).normalize()
        if known in wanted:
            del wanted[known]
        else:
            remove_rule(session, rule.id)
    for one in wanted:
        add_rule(session, channel, one.events, one.sources, now)


def _resolve(session: Session, rule: DeclaredRule) -> DeclaredRule:
    """The rule as it is stored; raises NotFound for an unknown source."""
    slugs = tuple(get_source(session, one).slug for one in rule.sources)
    return DeclaredRule(events=rule.events, sources=slugs).normalize()

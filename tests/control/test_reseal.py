"""Keys are rotated: every stored secret is encrypted with the newest one."""

import json

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from eventlake.control.connections import connect
from eventlake.control.database import Database
from eventlake.control.erasures import ErasureRequest, add_erasure
from eventlake.control.lakes import add_lake, change_lake, read_secrets
from eventlake.control.notify.channels import add_channel, read_channel_row
from eventlake.control.preferences import read_heartbeat, set_heartbeat
from eventlake.control.reseal import reseal_secrets
from eventlake.control.sources import add_source
from eventlake.control.tables import erasures, metadata
from eventlake.control.vault import SEALED, Vault
from eventlake.control.workspace import ensure_workspace
from eventlake.errors import Changed, InvalidSettings
from tests.clocks import SimulatedClock

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
PLACE = {"storage_account": "account", "storage_container": "container"}


@pytest.fixture
def workspace(database: Database, clock: SimulatedClock) -> Database:
    """A workspace with a secret in each place that can have one, under the old key."""
    vault, now = Vault([OLD]), clock.now()
    with database.write() as session:
        ensure_workspace(session, now)
        values = {**PLACE, "account_key": "secret-of-lake"}
        add_lake(session, "az", "azure", values, vault, now)
        other = {**PLACE, "storage_container": "second", "account_key": "env:STORAGE"}
        add_lake(session, "ref", "azure", other, vault, now)
        add_source(session, "web", now)
        connect(session, "web", "az", {}, now)
        settings = {"url": "https://example.com/secret-of-hook"}
        add_channel(session, "hook", "webhook", settings, vault, now)
        set_heartbeat(session, "https://example.com/secret-of-heartbeat", vault)
        add_erasure(session, ErasureRequest(users=("u1",)), vault, "cli", now)
    return database


def test_every_stored_secret_is_opened_by_the_new_key_alone(workspace: Database) -> None:
    with workspace.write() as session:
        done = reseal_secrets(session, Vault([NEW, OLD]))
    assert (done.resealed, done.unreadable) == (5, ())
    new = Vault([NEW])
    with workspace.read() as session:
        assert list(read_secrets(session, "az", new).values()) == ["secret-of-lake"]
        stored = read_channel_row(session, "hook").secrets
        assert new.resolve("url", stored["url"]) == "https://example.com/secret-of-hook"
        assert new.resolve("secret", stored["secret"]).startswith("whsec_")
        assert read_heartbeat(session, new) == "https://example.com/secret-of-heartbeat"
        ids = session.execute(sa.select(erasures.c.ids)).scalar_one()
        assert json.loads(new.resolve("ids", ids)) == ["u1"]


def test_no_place_of_secrets_is_forgotten(workspace: Database) -> None:
    """Every sealed text of every table is counted."""
    with workspace.write() as session:
        found = [session.execute(sa.select(one)).all() for one in metadata.sorted_tables]
        # A row as text would be cut.
        stored = str([tuple(row) for rows in found for row in rows])
        assert reseal_secrets(session, Vault([NEW, OLD])).resealed == stored.count(SEALED)


def test_what_no_key_opens_is_named_and_stays(workspace: Database) -> None:
    with workspace.write() as session:
        values = {"account_key": "secret-of-new"}
        change_lake(session, "ref", values, 1, Vault([NEW]))
        done = reseal_secrets(session, Vault([NEW]))
        assert done.resealed == 1
        assert done.unreadable == (
            "lake:az account_key",
            "channel:hook url",
            "channel:hook secret",
            "erasure:1 ids",
            "heartbeat_url",
        )
        assert list(read_secrets(session, "az", Vault([OLD])).values()) == ["secret-of-lake"]
        with pytest.raises(InvalidSettings, match="account_key was sealed with another key"):
            read_secrets(session, "az", Vault([NEW]))


def test_a_change_that_was_read_before_does_not_bring_the_old_key_back(
    workspace: Database,
) -> None:
    with workspace.write() as session:
        reseal_secrets(session, Vault([NEW, OLD]))
        with pytest.raises(Changed):
            change_lake(session, "az", {"metastore_user": "other"}, 1, Vault([OLD]))

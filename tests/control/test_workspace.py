"""Workspace, sources, lakes, connections and schedules, as their services keep them."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from eventlake.control import schedules, tables
from eventlake.control.connections import (
    Connection,
    change_connection,
    connect,
    get_connection,
    list_connections,
)
from eventlake.control.database import Database, Session
from eventlake.control.lakes import (
    add_lake,
    change_lake,
    get_lake,
    list_lakes,
    read_secrets,
)
from eventlake.control.schedule import Schedule
from eventlake.control.sources import (
    add_source,
    add_write_key,
    get_source,
    list_sources,
    remove_source,
    revoke_write_key,
    set_source_enabled,
)
from eventlake.control.vault import Vault, open_vault
from eventlake.control.workspace import ensure_workspace, get_workspace
from eventlake.errors import Changed, InsufficientPermissions, InvalidSettings, NotFound
from tests.clocks import SimulatedClock

AZURE = {"storage_account": "account1", "storage_container": "events"}
S3 = {"s3_bucket": "my-bucket", "aws_region": "eu-west-1"}
PLANTED = "hunter2-hunter2"


@pytest.fixture
def vault() -> Vault:
    return Vault([Fernet.generate_key().decode()])


@pytest.fixture
def session(database: Database, clock: SimulatedClock) -> Iterator[Session]:
    """A transaction on a new workspace."""
    with database.write() as session:
        ensure_workspace(session, clock.now())
        yield session


@pytest.fixture
def make(session: Session, clock: SimulatedClock, vault: Vault, tmp_path: Path) -> "Make":
    return Make(session, clock, vault, tmp_path)


class Make:
    """Makes sources, lakes and connections."""

    def __init__(self, session: Session, clock: SimulatedClock, vault: Vault, at: Path) -> None:
        self.session, self.clock, self.vault, self.at = session, clock, vault, at

    def source(self, slug: str) -> None:
        add_source(self.session, slug, self.clock.now())

    def lake(self, slug: str = "main") -> None:
        values = {"path": str(self.at / slug)}
        add_lake(self.session, slug, "local", values, self.vault, self.clock.now())

    def connection(self, source: str, lake: str = "main", **values: Any) -> Connection:
        copy_from = values.pop("copy_from", "")
        now = self.clock.now()
        return connect(self.session, source, lake, values, now, copy_from=copy_from)


# The workspace


def test_there_is_one_workspace(database: Database, clock: SimulatedClock) -> None:
    def start(_: int) -> str:
        with database.write() as session:
            return ensure_workspace(session, clock.now()).id

    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(start, range(8)))
    assert len(ids) == 1
    assert ids.pop().isalnum()


# Sources and write keys


def test_a_source_gets_an_id_and_a_key(session: Session, clock: SimulatedClock) -> None:
    source = add_source(session, "ios-prod", clock.now())
    assert (source.slug, source.enabled, len(source.write_keys)) == ("ios-prod", True, 1)
    assert get_source(session, "ios-prod") == get_source(session, source.id) == source
    assert list_sources(session) == [source]
    assert not set_source_enabled(session, "ios-prod", False).enabled
    assert not get_source(session, "ios-prod").enabled


def test_segments_id_and_key_can_be_kept(session: Session, clock: SimulatedClock) -> None:
    source = add_source(session, "web", clock.now(), source_id="9IP56Shn6", write_key="k1")
    assert (source.id, source.write_keys) == ("9IP56Shn6", ("k1",))


def test_a_slug_is_never_used_again(session: Session, clock: SimulatedClock) -> None:
    source = add_source(session, "web", clock.now())
    remove_source(session, "web", clock.now())
    with pytest.raises(InvalidSettings, match="a source had this slug"):
        add_source(session, "web", clock.now())
    with pytest.raises(InvalidSettings, match="of the source web, which was removed"):
        add_source(session, "other", clock.now(), source_id=source.id)
    with pytest.raises(NotFound, match="'web': the workspace has no such source"):
        get_source(session, "web")
    with pytest.raises(InvalidSettings, match="'-web': letters, digits"):
        add_source(session, "-web", clock.now())


def test_keys_are_added_and_revoked(session: Session, clock: SimulatedClock) -> None:
    first = add_source(session, "web", clock.now()).write_keys[0]
    clock.advance(timedelta(seconds=1))
    both = add_write_key(session, "web", clock.now()).write_keys
    assert both[0] == first
    assert revoke_write_key(session, "web", first, clock.now()).write_keys == both[1:]
    assert get_source(session, "web").write_keys == both[1:]
    with pytest.raises(NotFound, match="no such write key"):
        revoke_write_key(session, "web", first, clock.now())
    with pytest.raises(InvalidSettings, match=r"was revoked on \d{4}-\d\d-\d\d") as revoked:
        add_write_key(session, "web", clock.now(), first)
    assert first not in str(revoked.value)
    with pytest.raises(InvalidSettings, match="has this write key already"):
        add_write_key(session, "web", clock.now(), both[1])
    add_source(session, "app", clock.now())
    with pytest.raises(InvalidSettings, match="is or was another's"):
        add_write_key(session, "app", clock.now(), first)
    with pytest.raises(InvalidSettings, match="no colon"):
        add_write_key(session, "app", clock.now(), "a:b")


# Lakes and their secrets


def test_a_lakes_settings_are_those_of_its_kind(make: Make) -> None:
    session, now = make.session, make.clock.now()
    with pytest.raises(InvalidSettings, match="kind is 'hdfs': choose one of local"):
        add_lake(session, "x", "hdfs", {}, make.vault, now)
    with pytest.raises(InvalidSettings, match=r"s3_bucket is 'A'.*; aws_region is missing"):
        add_lake(session, "x", "aws", {"s3Bucket": "A"}, make.vault, now)
    make.lake()
    with pytest.raises(InvalidSettings, match="there is one already"):
        make.lake()
    stored = get_lake(session, "main").model.model_dump()
    assert stored == {"path": str(make.at / "main"), "format": "parquet"}


def test_a_relative_path_is_stored_as_an_absolute_one(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make.at)
    lake = add_lake(make.session, "x", "local", {"path": "lake"}, make.vault, make.clock.now())
    assert lake.settings == {"path": str(make.at / "lake")}


def test_two_lakes_cannot_have_the_same_place(make: Make) -> None:
    session, vault, now = make.session, make.vault, make.clock.now()
    make.lake()
    make.lake("second")
    (make.at / "link").symlink_to(make.at / "main")
    for path in (f"{make.at}/main/", str(make.at / "link")):
        with pytest.raises(InvalidSettings, match="is the place of the lake main: use that lake"):
            add_lake(session, "l5", "local", {"path": path}, vault, now)
    with pytest.raises(InvalidSettings, match="is the place of the lake main"):
        change_lake(session, "second", {"path": str(make.at / "main")}, 1, vault)
    add_lake(session, "s3", "aws", S3, vault, now)
    add_lake(session, "minio", "aws", {**S3, "s3_endpoint": "http://minio:9000"}, vault, now)
    add_lake(session, "adls", "azure", AZURE, vault, now)
    add_lake(session, "adls2", "azure", {**AZURE, "storage_container": "two"}, vault, now)
    unity = {"workspace_url": "dbc-a1b2c3d4-e5f6.cloud.databricks.com", "catalog": "main"}
    unity |= {"storage": "s3://my-bucket", "aws_region": "eu-west-1", "auth": "pat"}
    same = (("aws", S3, "s3"), ("azure", AZURE, "adls"), ("databricks", unity, "s3"))
    for kind, values, other in same:
        with pytest.raises(InvalidSettings, match=f"is the place of the lake {other}:"):
            add_lake(session, "l5", kind, values, vault, now)


def test_secrets_are_sealed_and_not_shown(make: Make) -> None:
    values = {**AZURE, "client_secret": PLANTED, "accountKey": "env:LAKE_KEY"}
    lake = add_lake(make.session, "adls", "azure", values, make.vault, make.clock.now())
    assert lake.secrets == {"client_secret": "set", "account_key": "env:LAKE_KEY"}
    assert list_lakes(make.session) == [lake]
    assert PLANTED not in str(lake)
    for table in tables.metadata.sorted_tables:
        assert PLANTED not in str(make.session.execute(sa.select(table)).all())


def test_runs_get_secrets_by_their_variables(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    (make.at / "key").write_text("from-file\n")
    values = {**AZURE, "client_secret": PLANTED, "account_key": f"file:{make.at / 'key'}"}
    add_lake(make.session, "adls", "azure", values, make.vault, make.clock.now())
    assert read_secrets(make.session, "adls", make.vault) == {
        "AZURE_CLIENT_SECRET": PLANTED,
        "AZURE_STORAGE_ACCOUNT_KEY": "from-file",
    }
    change_lake(make.session, "adls", {"account_key": "env:LAKE_KEY"}, 1, make.vault)
    with pytest.raises(InvalidSettings, match="'env:LAKE_KEY': the environment has no such"):
        read_secrets(make.session, "adls", make.vault)
    monkeypatch.setenv("LAKE_KEY", "from-environment")
    secrets = read_secrets(make.session, "adls", make.vault)
    assert secrets["AZURE_STORAGE_ACCOUNT_KEY"] == "from-environment"
    change_lake(make.session, "adls", {"account_key": "file:/no/such"}, 2, make.vault)
    with pytest.raises(InvalidSettings, match="'file:/no/such': No such file"):
        read_secrets(make.session, "adls", make.vault)


def test_a_lake_is_changed_by_who_saw_its_last_version(make: Make) -> None:
    values = {**AZURE, "client_secret": PLANTED}
    add_lake(make.session, "adls", "azure", values, make.vault, make.clock.now())
    changed = change_lake(make.session, "adls", {"login": "principal"}, 1, make.vault)
    assert (changed.version, changed.settings["login"]) == (2, "principal")
    assert changed.secrets == {"client_secret": "set"}
    with pytest.raises(Changed, match="somebody else has changed it"):
        change_lake(make.session, "adls", {"login": "key"}, 1, make.vault)
    reset = change_lake(make.session, "adls", {"login": None, "client_secret": None}, 2, make.vault)
    assert "login" not in reset.settings
    assert reset.secrets == {}


def test_a_lake_with_sources_stays_where_it_is(make: Make) -> None:
    make.lake()
    elsewhere = {"path": str(make.at / "elsewhere")}
    assert change_lake(make.session, "main", elsewhere, 1, make.vault).settings == elsewhere
    make.source("web")
    make.connection("web")
    with pytest.raises(InvalidSettings, match=r"the lake is at .*sources are connected to it"):
        change_lake(make.session, "main", {"path": str(make.at / "main")}, 2, make.vault)
    add_lake(make.session, "adls", "azure", AZURE, make.vault, make.clock.now())
    make.source("ios")
    make.connection("ios", "adls")
    with pytest.raises(InvalidSettings, match="the lake is at abfss://events@account1"):
        change_lake(make.session, "adls", {"storage_container": "others"}, 1, make.vault)


def test_the_key_is_in_the_environment_or_in_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "eventlake.key"
    sealed = open_vault(path, {}).store("text")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_vault(path, {}).resolve("name", sealed) == "text"
    variable = {"EVENTLAKE_SECRET_KEY": path.read_text()}
    assert open_vault(tmp_path / "none", variable).resolve("name", sealed) == "text"
    assert not (tmp_path / "none").exists()
    newer = Fernet.generate_key().decode()
    path.write_text(f"{newer}\n{path.read_text()}\n")
    assert open_vault(path, {}).resolve("name", sealed) == "text"
    assert Vault([newer]).resolve("name", open_vault(path, {}).store("text")) == "text"
    path.chmod(0o640)
    with pytest.raises(InsufficientPermissions, match="chmod 600"):
        open_vault(path, {})
    with pytest.raises(InvalidSettings, match="must be 32 bytes") as caught:
        open_vault(path, {"EVENTLAKE_SECRET_KEY": PLANTED})
    assert PLANTED not in str(caught.value)
    with pytest.raises(InsufficientPermissions, match="cannot use the key file"):
        open_vault(tmp_path / "no" / "folder", {})


# Connections


def test_a_connection_has_the_ids_of_source_and_workspace(make: Make) -> None:
    make.lake()
    make.source("web")
    connection = make.connection("web", datePartition="day", skip_events=["noise"])
    settings = connection.resolved
    assert settings.source_id == get_source(make.session, "web").id
    assert settings.workspace == get_workspace(make.session).id
    assert (settings.database, settings.date_partition) == ("web", "day")
    assert connection.settings == {"date_partition": "day", "skip_events": ["noise"]}
    assert list_connections(make.session) == [connection]
    with pytest.raises(InvalidSettings, match="connected to the lake main already"):
        make.connection("web", database="other")
    with pytest.raises(InvalidSettings, match="source_id is not a setting of a connection"):
        change_connection(make.session, "web", {"sourceId": "x"}, 1)


def test_wrong_settings_are_told_when_they_are_entered(make: Make) -> None:
    make.lake()
    make.source("web")
    with pytest.raises(NotFound, match="source web is not connected"):
        get_connection(make.session, "web")
    with pytest.raises(InvalidSettings, match=r"date_partition is 'week'.*; dedup_days is -1"):
        make.connection("web", dedup_days=-1, date_partition="week")
    with pytest.raises(NotFound, match="lake is 'other'"):
        make.connection("web", "other")


def test_database_names_are_unique_in_a_lake(make: Make) -> None:
    make.lake()
    make.lake("second")
    for slug in ("web", "ios", "app"):
        make.source(slug)
    make.connection("web", database="events")
    with pytest.raises(InvalidSettings, match=r"database is 'events', and web has tables there"):
        make.connection("ios", database="events")
    make.connection("ios", "second", database="events")
    make.connection("app")
    with pytest.raises(InvalidSettings, match="web has tables there"):
        change_connection(make.session, "app", {"database": "events"}, 1)


def test_settings_are_copied_without_names_in_the_catalog(make: Make) -> None:
    make.lake()
    make.source("web")
    make.source("ios")
    make.connection("web", database="site", table_prefix="x", dedup_days=3, max_columns=50)
    copy = make.connection("ios", copy_from="web", max_columns=60)
    assert copy.settings == {"dedup_days": 3, "max_columns": 60}
    assert (copy.resolved.database, copy.resolved.table_prefix) == ("ios", "")


def test_a_connection_is_changed_by_who_saw_its_last_version(make: Make) -> None:
    make.lake()
    make.source("web")
    make.connection("web", dedup_days=3)
    changed = change_connection(make.session, "web", {"dedup_days": None, "compression": "gzip"}, 1)
    assert (changed.settings, changed.version) == ({"compression": "gzip"}, 2)
    with pytest.raises(Changed):
        change_connection(make.session, "web", {"dedup_days": 9}, 1)


def test_what_a_source_with_tables_may_not_change(make: Make) -> None:
    make.lake()
    make.source("web")
    make.connection("web")
    assert change_connection(make.session, "web", {"date_partition": "day"}, 1).notes == ()
    make.session.execute(tables.runs.insert().values(landed_run(make) | {"state": "failed"}))
    assert change_connection(make.session, "web", {"naming": "native"}, 2).notes == ()
    make.session.execute(tables.runs.insert().values(landed_run(make)))
    with pytest.raises(InvalidSettings, match=r"rebuild the source with .*replays add web"):
        change_connection(make.session, "web", {"date_partition": "day/hour"}, 3)
    [note] = change_connection(make.session, "web", {"database": "site"}, 3).notes
    assert "registers all tables under the new name" in note


def landed_run(make: Make) -> dict[str, Any]:
    texts = dict.fromkeys(("trigger", "actor", "reason", "owner", "handle"), "")
    numbers = {"coalesced": 0, "epoch": 0, "attempt": 1, "check_first": False}
    source = get_source(make.session, "web").id
    own = {"source_id": source, "kind": "sync", "lane": "sync", "state": "finished"}
    errors = {"error_code": "", "error": "", "lake_run": "1", "created_at": make.clock.now()}
    return texts | numbers | own | errors | {"progress": {}}


# Schedules


def test_a_new_connection_is_every_two_hours_once_it_is_enabled(make: Make) -> None:
    make.lake()
    make.source("web")
    with pytest.raises(NotFound, match="not connected"):
        schedules.get_schedule(make.session, "web")
    make.connection("web")
    before = schedules.get_schedule(make.session, "web")
    assert (before.schedule.every_seconds, before.enabled_at, before.next_slot) == (
        7200,
        None,
        None,
    )
    enabled = schedules.enable(make.session, "web", make.clock.now())
    assert enabled.next_slot == make.clock.now() + timedelta(hours=2)
    make.clock.advance(timedelta(hours=1))
    assert schedules.enable(make.session, "web", make.clock.now()) == enabled
    disabled = schedules.disable(make.session, "web", make.clock.now())
    assert (disabled.enabled_at, disabled.next_slot) == (None, None)


def test_a_schedule_is_changed_by_who_saw_its_last_version(make: Make) -> None:
    make.lake()
    make.source("web")
    make.connection("web")
    now = make.clock.now()
    daily = Schedule(cron="0 6 * * *", zone="Europe/Berlin")
    assert schedules.set_schedule(make.session, "web", daily, now, 1).next_slot is None
    enabled = schedules.enable(make.session, "web", now)
    assert enabled.next_slot == now.replace(hour=5) + timedelta(days=1)
    with pytest.raises(Changed):
        schedules.set_schedule(make.session, "web", Schedule(), now, 1)
    manual = schedules.set_schedule(make.session, "web", Schedule(), now, enabled.version)
    assert (manual.enabled_at, manual.next_slot) == (now, None)


def test_a_removed_source_is_not_synced(make: Make) -> None:
    make.lake()
    make.source("web")
    make.connection("web")
    schedules.enable(make.session, "web", make.clock.now())
    remove_source(make.session, "web", make.clock.now())
    row = make.session.execute(sa.select(tables.schedules)).one()
    assert (row.enabled_at, row.next_slot) == (None, None)

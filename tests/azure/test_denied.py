"""Permissions that are denied: the role to assign is named, nothing is half done, a grant repairs.

The lake signs in with a managed identity, for which a proxy before Azurite gives tokens.
"""

from collections.abc import Iterator

import pytest

from eventlake.errors import InsufficientPermissions
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.services.check import check
from tests import lakes
from tests.aws.answers import Answer, denied
from tests.aws.calls import Call
from tests.aws.rules import Denied, Forward
from tests.aws.worlds import World
from tests.azure.azurite import Azure, entered
from tests.azure.proxy import Proxy, batch_answer
from tests.azure.test_login import CLIENT

GRANT = "grant Storage Blob Data Contributor on the container {} to the identity of this machine"


@pytest.fixture
def lake(
    azure: Azure, tls_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AzureSettings]:
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{tls_proxy.here.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "x")
    yield azure.settings(client_id=CLIENT)
    assert tls_proxy.astray() == []


def names_the_grant(lake: AzureSettings, message: str) -> bool:
    return f"{GRANT.format(lake.storage_container)} {CLIENT}" in message


@pytest.mark.parametrize(
    "case",
    [
        Denied("list", "segment-data"),
        Denied("write", "segment-stage/.*/write/"),
        Denied("write", "segment-data/ledger"),
    ],
    ids=lambda one: f"{one.permission} {one.resource}",
)
def test_denied_before_the_commit_lands_nothing(
    world: World, lake: AzureSettings, tls_proxy: Proxy, case: Denied
) -> None:
    with tls_proxy.ruled(case), pytest.raises(InsufficientPermissions) as refused:
        lakes.load(world.files, lake)
    assert names_the_grant(lake, str(refused.value))
    with entered(tls_proxy.upstream):
        assert lakes.read_commits(lake) == []
        assert [path for path in lakes.strays(lake) if path.startswith("staging")] == []
    assert lakes.load(world.files, lake).status == "finished"
    with entered(tls_proxy.upstream):
        world.check(lake, twice=False)


def no_deletes(call: Call, forward: Forward) -> Answer | None:
    """Azure answers a batch with 202, and refuses each of its requests."""
    if call.action != "DeleteObjects":
        return None
    return batch_answer(call, [denied(call, need) for need in call.needs])


@pytest.mark.parametrize(
    "rule",
    [
        Denied("write", "staging/web/segment_type"),
        Denied("write", "staging/web/schemas"),
        Denied("write", "segment-data/catalog"),
        no_deletes,
    ],
    ids=["publish", "schemas", "register", "delete"],
)
def test_denied_after_the_commit_is_completed_by_the_next_run(
    world: World, lake: AzureSettings, tls_proxy: Proxy, rule: Denied
) -> None:
    with tls_proxy.ruled(rule):
        result = lakes.load(world.files, lake)
    assert result.status == "partial"
    assert names_the_grant(lake, result.message), result.message
    assert lakes.load(world.files, lake).status == "nothing"
    with entered(tls_proxy.upstream):
        world.check(lake, twice=False)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (Denied("list", "segment-logs"), {"list segment-logs"}),
        (Denied("write", "staging/"), {"write staging", "publish"}),
        (Denied("read", "staging/"), {"read staging"}),
        (Denied("write", "segment-data/catalog"), {"create a table"}),
        (no_deletes, {"delete staging", "delete segment-logs", "drop a table"}),
    ],
    ids=["list", "write", "read", "catalog", "delete"],
)
def test_a_check_finds_what_is_denied(
    lake: AzureSettings, tls_proxy: Proxy, rule: Denied, what: set[str]
) -> None:
    with tls_proxy.ruled(rule):
        failed = {one.name: one.detail for one in check(lake) if not one.ok}
    assert all(names_the_grant(lake, detail) for detail in failed.values())
    assert what <= failed.keys()

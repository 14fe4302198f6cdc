"""Signing in with a service principal of Entra, as workspaces of Azure take it."""

import pytest
from databricks.sdk import environments
from databricks.sdk.environments import AzureEnvironment, Cloud, DatabricksEnvironment

from eventlake.databricks.workspace import Workspace
from eventlake.errors import InvalidSettings
from eventlake.lakes.azure import AzureKind
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.databricks import DatabricksKind
from eventlake.lakes.databricks_settings import DatabricksSettings
from eventlake.model.databricks import DatabricksAuth
from eventlake.secrets import EnvironmentSecrets
from tests.databricks.standin import ENTRA_RESOURCES, PRINCIPAL, SECRET, TENANT, StandIn, databricks

__all__ = ["databricks"]

PLACE = ("00000000-0000-0000-0000-000000000001", "rg", "ws")
RESOURCE = "X-Databricks-Azure-Workspace-Resource-Id"


@pytest.fixture(autouse=True)
def entra(databricks: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK takes the stand-in for a workspace of Azure, and its Entra for Microsoft's."""
    endpoints = AzureEnvironment("HERE", ENTRA_RESOURCES[1], "", f"{databricks.url}/entra/")
    zone = databricks.url.removeprefix("http://")
    here = DatabricksEnvironment(Cloud.AZURE, zone, ENTRA_RESOURCES[0], endpoints)
    monkeypatch.setattr(environments, "ALL_ENVS", [here, *environments.ALL_ENVS])
    for name in ("DATABRICKS_CLIENT_SECRET", "DATABRICKS_TOKEN", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)


def of_databricks_lake(here: StandIn, tenant: str = TENANT) -> Workspace:
    settings = DatabricksSettings(
        workspace_url=here.url,
        catalog="events",
        storage="abfss://lake@account.dfs.core.windows.net",
        auth=DatabricksAuth.AZURE,
        client_id=PRINCIPAL,
        tenant_id=tenant,
    )
    return DatabricksKind(settings, EnvironmentSecrets(settings.secrets)).workspace


def of_azure_lake(here: StandIn) -> Workspace:
    subscription, group, name = PLACE
    settings = AzureSettings(
        storage_account="account",
        storage_container="lake",
        databricks_instance_url=here.url,
        client_id=PRINCIPAL,
        tenant_id=TENANT,
        subscription_id=subscription,
        databricks_workspace_resource_group=group,
        databricks_workspace_name=name,
    )
    return AzureKind(settings, EnvironmentSecrets(settings.secrets)).workspace


def test_a_databricks_lake(databricks: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", SECRET)
    assert of_databricks_lake(databricks).user_name == PRINCIPAL
    [me] = databricks.server.named("scim/v2/Me")
    assert RESOURCE not in me.headers


def test_an_azure_lake_names_the_workspace(
    databricks: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its id, a principal need not have been added to the workspace before."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", SECRET)
    assert of_azure_lake(databricks).user_name == PRINCIPAL
    [me] = databricks.server.named("scim/v2/Me")
    assert me.headers[RESOURCE].endswith("/rg/providers/Microsoft.Databricks/workspaces/ws")
    management = databricks.tokens[me.headers["X-Databricks-Azure-SP-Management-Token"]]
    assert management["resource"] == ENTRA_RESOURCES[1]


def test_tokens_of_entra_are_renewed(databricks: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", SECRET)
    databricks.lifetime = 1  # the SDK renews a token well before it expires
    workspace = of_databricks_lake(databricks)
    for _ in range(2):
        workspace.client.current_user.me()
        databricks.tokens.clear()
    assert len(databricks.server.named(f"POST /entra/{TENANT}/oauth2/token")) >= 4


def test_what_entra_refuses(databricks: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettings, match="set DATABRICKS_CLIENT_SECRET, or put it"):
        _ = of_databricks_lake(databricks).user_name
    with pytest.raises(InvalidSettings, match="set AZURE_CLIENT_SECRET, or put it"):
        _ = of_azure_lake(databricks).user_name
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "guessed")
    with pytest.raises(InvalidSettings, match=r"Entra refuses .* App registrations.*AADSTS7000215"):
        _ = of_databricks_lake(databricks).user_name

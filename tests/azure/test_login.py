"""Who we are for Azure: each way to sign in, what refusals mean, and no secret in any of it."""

import os
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings
from eventlake.lakes import open_store
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.model.azure import AzureLogin
from eventlake.secrets import EnvironmentSecrets
from eventlake.stores import Store
from eventlake.stores.azure import Adls
from eventlake.stores.azure_login import Login
from tests.azure.azurite import ACCOUNT, KEY, LEADS_AWAY, Azure
from tests.azure.refusing import TOKEN, Refusing

TENANT, CLIENT = (f"{n}0000000-1111-2222-3333-444444444444" for n in (1, 2))
SECRET = "a-secret-that-nobody-may-see"
ONLY = (
    "it may only have client_secret or account_key or sas_token or metastore_password or "
    "databricks_client_secret or databricks_token, as a string"
)
ENVIRONMENT = EnvironmentSecrets(AzureSettings.secrets)
IDS = {"tenant_id": TENANT, "client_id": CLIENT}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is none of Azure's, and an environment that says nothing."""
    for name in (n for n in tuple(os.environ) if n.startswith(LEADS_AWAY)):
        monkeypatch.delenv(name)


def opened(**settings: Any) -> Store:
    given = {"storage_account": ACCOUNT, "storage_container": "lake", **settings}
    store = open_store(AzureSettings.model_validate(given))
    assert isinstance(store, Adls)
    return replace(store, login=replace(store.login, metadata=("127.0.0.1", 1)))


def refused(store: Store) -> EventLakeError:
    with pytest.raises(EventLakeError) as caught:
        store.write("a", b"x")
    for hidden in (SECRET, TOKEN, KEY):
        assert hidden not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    return caught.value


def test_a_service_principal(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", SECRET)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    refused(opened(**IDS))
    (asked,) = refusing.tokens
    assert (asked["client_id"], asked["client_secret"]) == (CLIENT, SECRET)
    assert refusing.signed == [f"Bearer {TOKEN}"]


def test_its_ids_of_the_environment(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TENANT_ID", TENANT), ("CLIENT_ID", CLIENT), ("CLIENT_SECRET", SECRET)):
        monkeypatch.setenv(f"AZURE_{name}", value)
    refused(open_store(f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"))
    assert [asked["client_id"] for asked in refusing.tokens] == [CLIENT]


def test_an_account_key(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sig=of-somebody-else")
    refused(opened(**IDS))
    assert [signed.partition(":")[0] for signed in refusing.signed] == [f"SharedKey {ACCOUNT}"]
    assert not refusing.tokens


def test_a_machines_identity(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{refusing.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "x")
    problem = refused(opened(client_id=CLIENT))
    assert f"on the container lake to the identity of this machine {CLIENT}" in str(problem)
    assert [asked["client_id"] for asked in refusing.tokens] == [CLIENT]
    assert refusing.signed == [f"Bearer {TOKEN}"]


def test_a_pods_identity(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    refused(opened(**IDS))
    assert [asked["client_assertion"] for asked in refusing.tokens] == ["of-the-pod"]


def test_a_file_of_credentials(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "another")
    (tmp_path / "secret.toml").write_text(f'client_secret = "{SECRET}"')
    (tmp_path / "azure.toml").write_text(
        f'storageAccount = "{ACCOUNT}"\nstorageContainer = "lake"\ntenantId = "{TENANT}"\n'
        f'clientId = "{CLIENT}"\ncredentialsFile = "secret.toml"\n'
    )
    refused(open_store(tmp_path / "azure.toml"))
    assert [asked["client_secret"] for asked in refusing.tokens] == [SECRET]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"client_secret = {SECRET}", "not valid TOML"),
        (f'password = "{SECRET}"', ONLY),
        ("account_key = 5", ONLY),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_wrong(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.toml"
    if text is not None:
        file.write_text(text)
    problem = refused(opened(credentials_file=str(file)))
    assert isinstance(problem, InvalidSettings)
    assert str(problem).startswith(f"credentials_file is '{file}': {message}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no Azure credentials, and this machine has no managed identity: set AZ"),
        ({"login": "principal"}, "set tenant_id (or AZURE_TENANT_ID) and client_id (or AZURE_C"),
        ({"login": "principal", **IDS}, "set AZURE_CLIENT_SECRET (or client_secret in the cred"),
        ({"login": "key"}, "set AZURE_STORAGE_ACCOUNT_KEY (or account_key in the credentials_file"),
        ({"login": "cli"}, "the Azure CLI returned no token: install it and run az login"),
    ],
)
def test_what_is_missing_is_named(
    settings: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    problem = refused(opened(**settings))
    assert isinstance(problem, InvalidSettings)
    assert message in str(problem)


def test_what_goes_to_workers_has_no_secret(azure: Azure, tmp_path: Path) -> None:
    (tmp_path / "secret.toml").write_text(f'account_key = "{KEY}"')
    for store in (
        open_store(azure.settings()),
        open_store(azure.settings(credentials_file=str(tmp_path / "secret.toml"))),
    ):
        store.write("a", b"x")
        for shown in (repr(store), str(vars(store)), str(pickle.dumps(store))):
            assert KEY not in shown


def test_arrow_signs_in_as_the_store_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", SECRET)
    login = Login(secrets=ENVIRONMENT, **IDS)
    assert login.for_arrow() == {**IDS, "client_secret": SECRET}
    assert replace(login, how=AzureLogin.IDENTITY).for_arrow() == {"client_id": CLIENT}
    assert replace(login, how=AzureLogin.CLI).for_arrow() == {}


@dataclass(frozen=True)
class Database:
    """A provider that is none of ours."""

    def get(self, name: str) -> str | None:
        return {"client_secret": SECRET}.get(name)


def test_another_provider_of_secrets(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "another")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    settings = {"storage_account": ACCOUNT, "storage_container": "lake", **IDS}
    refused(open_store(AzureSettings.model_validate(settings), secrets=Database()))
    assert [asked["client_secret"] for asked in refusing.tokens] == [SECRET]


# What refusals mean


@pytest.fixture
def principal(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", SECRET)
    return opened(**IDS)


def test_a_role_that_is_missing(refusing: Refusing, principal: Store) -> None:
    problem = refused(principal)
    assert isinstance(problem, InsufficientPermissions)
    assert str(problem) == (
        f"no permission to write abfss://lake@{ACCOUNT}.dfs.core.windows.net/a "
        "(AuthorizationPermissionMismatch): grant Storage Blob Data Contributor on the container "
        f"lake to the service principal {CLIENT}"
    )


def test_a_firewall(refusing: Refusing, principal: Store) -> None:
    refusing.code = "AuthorizationFailure"
    assert f"or let this machine through the network rules of {ACCOUNT}" in str(refused(principal))
    with pytest.raises(InsufficientPermissions, match="or let this machine through"):
        principal.exists("a")  # to which Azure answers without a code
    with pytest.raises(
        InsufficientPermissions, match=r"no permission to list .* grant Storage Blob Data"
    ):
        principal.names("a")


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "AuthenticationFailed", "the credentials of the service principal 2"),
        (401, "InvalidAuthenticationInfo", "4 are not accepted (InvalidAuthenticationInfo)"),
        (404, "ContainerNotFound", "storage_container is 'lake', and the storage account"),
        (403, "AccountIsDisabled", f"storage_account is '{ACCOUNT}', and it is disabled"),
        (
            403,
            "KeyBasedAuthenticationNotPermitted",
            "does not accept account keys: set tenant_id, client_id and AZURE_CLIENT_SECRET, or",
        ),
    ],
)
def test_a_setting_that_is_wrong(
    refusing: Refusing, principal: Store, status: int, code: str, message: str
) -> None:
    refusing.status, refusing.code = status, code
    problem = refused(principal)
    assert isinstance(problem, InvalidSettings)
    assert message in str(problem)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "AADSTS7000215",
            "the client secret (AZURE_CLIENT_SECRET or the credentials_file) is wrong",
        ),
        ("AADSTS7000222", "has expired (AADSTS7000222)"),
        ("AADSTS700016", "client_id is not an application of the tenant"),
        ("AADSTS90002", "tenant_id does not exist"),
        ("AADSTS53003", "check tenant_id, client_id and the secret or the identity (AADSTS53003)"),
    ],
)
def test_a_token_that_is_not_given(
    refusing: Refusing, principal: Store, code: str, message: str
) -> None:
    refusing.entra = code
    problem = refused(principal)
    assert isinstance(problem, InvalidSettings)
    assert f"there is no token for the service principal {CLIENT}: " in str(problem)
    assert message in str(problem)


def test_a_key_of_another_account(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c29tZWJvZHkgZWxzZSdz")
    with pytest.raises(
        InsufficientPermissions, match=r"check that AZURE_STORAGE_ACCOUNT_KEY or the"
    ):
        open_store(azure.settings()).write("a", b"x")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "no base64!")
    with pytest.raises(InvalidSettings, match=r"AZURE_STORAGE_ACCOUNT_KEY .* not valid base64"):
        open_store(azure.settings()).write("a", b"x")


def test_a_container_that_is_not_there(azure: Azure) -> None:
    store = open_store(azure.settings(storage_container="nowhere"))
    for call in (lambda: store.write("a", b"x"), lambda: store.names("a")):
        with pytest.raises(InvalidSettings, match="storage_container is 'nowhere', and the stor"):
            call()

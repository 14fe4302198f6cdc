"""The Terraform module for Azure: EventLake's settings, and no permission beyond its needs."""

import json
import re
from typing import Any

import pytest

from eventlake.lakes import azure_settings as lake
from eventlake.model.layout import ADLS_LAYOUT
from eventlake.stores.azure import ROLE
from tests.deploy.module import ROOT, declared, resources
from tests.deploy.test_terraform import patterns

MODULE = ROOT / "deploy/terraform/azure"
RULES = {"storage_account": lake.STORAGE_ACCOUNT, "storage_container": lake.CONTAINER}


def one(kind: str, name: str) -> dict[str, Any]:
    return resources(kind, MODULE)[name]


@pytest.mark.parametrize(("setting", "pattern"), RULES.items())
def test_a_setting_has_the_rule_of_the_product(setting: str, pattern: str) -> None:
    assert patterns(declared("variable", MODULE)[setting]) == [pattern]


def test_the_settings_are_those_of_a_lake_on_azure() -> None:
    outputs = declared("output", MODULE)
    settings = declared("locals", MODULE)["settings"].keys()
    assert settings <= lake.AzureSettings.model_fields.keys()
    for name in settings:
        assert outputs[name]["value"] == f"${{local.settings.{name}}}"


def test_every_variable_and_output_is_described_and_in_the_readme() -> None:
    page = (MODULE / "README.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert told.keys() == declared("variable", MODULE).keys()
    for kind in ("variable", "output"):
        for name, body in declared(kind, MODULE).items():
            assert body["description"].endswith("."), name
            assert f"`{name}`" in page, name
    for name, body in declared("variable", MODULE).items():
        assert "type" in body
        if isinstance(default := body.get("default"), str | int):
            assert told[name] == f"`{json.dumps(default)}`".replace('"', ""), name


def test_the_storage_account_is_private_and_spoken_to_over_tls() -> None:
    account = one("azurerm_storage_account", "lake")
    assert account["is_hns_enabled"] is True
    assert account["min_tls_version"] == "TLS1_2"
    assert account["https_traffic_only_enabled"] is True
    assert account["allow_nested_items_to_be_public"] is False
    assert account["shared_access_key_enabled"] is False
    (rules,) = account["network_rules"]
    assert rules["default_action"] == "Deny"
    assert one("azurerm_storage_container", "lake")["container_access_type"] == "private"


def test_the_principal_may_use_the_container_and_read_the_vault() -> None:
    found = {
        name: (body["role_definition_name"], body["scope"], body["principal_id"])
        for name, body in resources("azurerm_role_assignment", MODULE).items()
    }
    applying = "${data.azurerm_client_config.current.object_id}"
    vault = "${azurerm_key_vault.lake.id}"
    assert found == {
        "lake": (ROLE, "${azurerm_storage_container.lake.id}", "${local.principal_id}"),
        "secrets_user": ("Key Vault Secrets User", vault, "${local.principal_id}"),
        "secrets_officer": ("Key Vault Secrets Officer", vault, applying),
    }
    assert not resources("azuread_app_role_assignment", MODULE)


def test_only_the_stage_expires_after_14_days() -> None:
    (rule,) = one("azurerm_storage_management_policy", "lake")["rule"]
    (filters,), (actions,) = rule["filters"], rule["actions"]
    assert filters["prefix_match"] == [f"${{var.storage_container}}/{ADLS_LAYOUT.stage}/"]
    days = {"delete_after_days_since_modification_greater_than": 14}
    assert actions == {"base_blob": [days]}


def test_the_database_takes_tls_only() -> None:
    parameters = one("azurerm_mysql_flexible_server_configuration", "metastore")["for_each"]
    for part in ('require_secure_transport = "ON"', 'tls_version = "TLSv1.2,TLSv1.3"'):
        assert part in parameters
    server = str(one("azapi_resource", "metastore")["body"])
    assert re.search(r"lowerCaseTableNames\W+2\b", server)
    assert "assword" not in server


def test_secrets_are_in_the_vault_and_in_no_output() -> None:
    secrets = resources("azurerm_key_vault_secret", MODULE)
    assert {body["content_type"] for body in secrets.values()} == {
        lake.AzureSettings.secrets[name] for name in ("client_secret", "metastore_password")
    }
    outputs = str(declared("output", MODULE)) + str(declared("locals", MODULE))
    assert not re.findall(r"random_password|_password\.eventlake|\.value\b", outputs)

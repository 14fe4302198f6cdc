"""The policies as JSON allow what the Terraform module allows, and no more."""

import json
from typing import Any

import pytest

from tests.deploy.module import ROOT, declared, resources

FOLDER = ROOT / "deploy/policies"
MADE_OF = {"lake": ("objects", "glue"), "steps": ("steps",), "trust": ("eventlake_trust",)}


def read(name: str) -> list[dict[str, Any]]:
    policy = json.loads((FOLDER / f"{name}.json").read_text())
    assert policy["Version"] == "2012-10-17"
    statements: list[dict[str, Any]] = policy["Statement"]
    return statements


@pytest.mark.parametrize(("name", "documents"), MADE_OF.items())
def test_each_policy_has_the_statements_of_the_module(name: str, documents: list[str]) -> None:
    module = resources("aws_iam_policy_document", family="data")
    bodies = [body for document in documents for body in module[document]["statement"]]
    assert [one["Sid"] for one in read(name)] == [body["sid"] for body in bodies]
    for one, body in zip(read(name), bodies, strict=True):
        assert one["Effect"] == "Allow"
        assert one["Action"] == body["actions"]
        tests = {(rule["test"], rule["variable"]) for rule in body.get("condition", ())}
        found = one.get("Condition", {}).items()
        assert {(test, key) for test, rules in found for key in rules} == tests


def test_objects_are_open_below_the_four_prefixes_only() -> None:
    prefixes = declared("locals")["own"]
    listing, _, objects, *_ = read("lake")
    assert listing["Condition"]["StringLike"]["s3:prefix"] == [f"{one}*" for one in prefixes]
    bucket = listing["Resource"][0]
    assert objects["Resource"] == [f"{bucket}/{prefix}*" for prefix in prefixes]


def test_tables_are_open_in_the_databases_that_are_named() -> None:
    tables = read("lake")[-1]["Resource"]
    named = [one.split(":")[-1] for one in tables]
    databases = [one.removeprefix("database/") for one in named if one.startswith("database/")]
    assert databases[-1] == "__segment_datalake"
    assert named == [
        "catalog",
        *(f"database/{name}" for name in databases),
        *(f"table/{name}/*" for name in databases),
    ]

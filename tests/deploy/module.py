"""The Terraform module as plain values: what is declared, and each statement of each policy."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hcl2

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "deploy/terraform/aws"

Body = dict[str, Any]

_PLAIN = hcl2.SerializationOptions(
    with_comments=False, explicit_blocks=False, strip_string_quotes=True
)


@dataclass(frozen=True)
class Statement:
    """One statement of a policy; what is no literal stands as its expression."""

    policy: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: dict[str, tuple[str, ...]]
    conditions: dict[str, tuple[str, tuple[str, ...]]]

    @property
    def services(self) -> set[str]:
        return {action.partition(":")[0] for action in self.actions}


def declared(kind: str, folder: Path = MODULE) -> dict[str, Any]:
    """`variable`, `output` or `locals` of all files, by name."""
    found: dict[str, Any] = {}
    for block in _blocks(kind, folder):
        found.update(block)
    return found


def resources(kind: str, folder: Path = MODULE, family: str = "resource") -> dict[str, Body]:
    """The resources of one type, by name."""
    found: dict[str, Body] = {}
    for block in _blocks(family, folder):
        found.update(block.get(kind, {}))
    return found


def statements(folder: Path = MODULE) -> list[Statement]:
    """Every statement of every policy."""
    policies = resources("aws_iam_policy_document", folder, "data")
    return [
        _statement(name, body)
        for name, policy in policies.items()
        for body in policy.get("statement", [])
    ]


def _blocks(kind: str, folder: Path) -> list[Body]:
    return [block for file in sorted(folder.glob("*.tf")) for block in _parsed(file).get(kind, [])]


@cache
def _parsed(file: Path) -> Body:
    with file.open() as text:
        return hcl2.load(text, serialization_options=_PLAIN)


def _statement(policy: str, body: Body) -> Statement:
    return Statement(
        policy=policy,
        effect=body.get("effect", "Allow"),
        actions=_several(body["actions"]),
        resources=_several(body.get("resources", [])),
        principals={
            one["type"]: _several(one["identifiers"]) for one in body.get("principals", [])
        },
        conditions={
            one["variable"]: (one["test"], _several(one["values"]))
            for one in body.get("condition", [])
        },
    )


def _several(values: Any) -> tuple[str, ...]:
    """A list's members; an expression that makes a list is one."""
    return tuple(values) if isinstance(values, list) else (values,)

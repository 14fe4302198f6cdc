"""Calls of AWS Glue: pages, batches, retries, and errors that name the permission."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from eventlake.aws import (
    Access,
    ClientError,
    aws_errors,
    error_code,
    policy_statement,
    xform_name,
)
from eventlake.catalogs.changes import ChangedError, retry_on_change
from eventlake.catalogs.glue_tables import Shape
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.model.catalog import CatalogTable

MAX_BATCH = 100
"""Glue's maximum of partitions in one call."""

MISSING, EXISTS = "EntityNotFoundException", "AlreadyExistsException"
CHANGED = "ConcurrentModificationException"


@dataclass(frozen=True)
class GlueCalls:
    """Calls the Glue catalog of an account."""

    access: Access
    catalog_id: str = ""
    clock: Clock = SYSTEM_CLOCK

    def call(
        self, action: str, resource: str, arguments: Mapping[str, Any], accept: str = ""
    ) -> Any:
        """Call Glue and return its response; None if it fails with the error code `accept`."""
        call = getattr(self.access.client("glue"), xform_name(action))
        with self._errors(action, resource):
            try:
                return call(**self._catalog, **arguments)
            except ClientError as problem:
                if error_code(problem) == CHANGED:
                    raise ChangedError(f"{resource} in Glue keeps changing: {problem}") from problem
                if error_code(problem) != accept:
                    raise
                return None

    def pages(
        self, action: str, field: str, resource: str, arguments: Mapping[str, Any]
    ) -> Iterator[Shape]:
        """Yield the items of all pages; none if the resource does not exist."""
        pages = self.access.client("glue").get_paginator(xform_name(action))
        with self._errors(action, resource):
            try:
                for page in pages.paginate(**self._catalog, **arguments):
                    yield from page.get(field, ())
            except ClientError as problem:
                if error_code(problem) != MISSING:
                    raise

    def _errors(self, action: str, resource: str) -> AbstractContextManager[None]:
        partition = self.access.client("glue").meta.partition
        account = f"arn:{partition}:glue:{self.access.region}:{self.catalog_id or '*'}"
        arn = f"{account}:{resource}"
        parents = {"table": ", its database and the catalog", "database": " and the catalog"}
        permission = f"glue:{action} on {arn}{parents.get(resource.partition('/')[0], '')}"
        arns = [f"{account}:{one}" for one in _with_parents(resource)]
        grant = policy_statement([f"glue:{action}"], arns)
        return aws_errors(f"call Glue's {action} for {resource}", permission, grant)

    @property
    def _catalog(self) -> dict[str, str]:
        return {"CatalogId": self.catalog_id} if self.catalog_id else {}

    def writable_fields(self, shape: str) -> Collection[str]:
        """The fields of a Glue structure that its update accepts; the others are read-only."""
        model = self.access.client("glue").meta.service_model
        return frozenset(model.shape_for(f"{shape}Input").members)

    def call_in_batches(
        self,
        action: str,
        field: str,
        table: CatalogTable,
        items: Collection[Shape] | Iterator[Shape],
    ) -> None:
        remaining = iter(items)
        while batch := list(islice(remaining, MAX_BATCH)):
            arguments = {"DatabaseName": table.database, "TableName": table.name, field: batch}
            response = retry_on_change(
                self.clock, partial(self.call, action, resource_of(table), arguments)
            )
            with self._errors(action, resource_of(table)):
                _raise_first_error(action, response.get("Errors", ()))


def _with_parents(resource: str) -> list[str]:
    """A resource and those that Glue asks permission for, too: a table's database, the catalog."""
    kind, _, name = resource.partition("/")
    database = [f"database/{name.partition('/')[0]}"] if kind in ("table", "database") else []
    return sorted({"catalog", *database, resource})


def resource_of(table: CatalogTable) -> str:
    return f"table/{table.database}/{table.name}"


def _raise_first_error(action: str, errors: Sequence[Shape]) -> None:
    """Raise the first error of a batch that is not about an existing or a missing partition."""
    for error in errors:
        detail = error.get("ErrorDetail", {})
        if detail.get("ErrorCode") not in (EXISTS, MISSING):
            cause = {"Code": detail.get("ErrorCode", ""), "Message": detail.get("ErrorMessage", "")}
            raise ClientError({"Error": cause}, action)

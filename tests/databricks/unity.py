"""Unity Catalog of the stand-in: its API over the tables that Spark has.

A table that a statement made and one that the API made are the same, as in a workspace. Of a Delta
table the catalog shows the columns of when it was registered or synchronized last.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.databricks.engine import Engine
from tests.databricks.http_server import Answer, Refused, Request

CATALOG = "spark_catalog"
"""The name with which Spark takes statements with names of three parts as they are."""
_TYPE_NAMES = {"bigint": "LONG", "int": "INT", "decimal": "DECIMAL"}
_CREATE = re.compile(
    r"CREATE TABLE IF NOT EXISTS `spark_catalog`\.`((?:[^`]|``)+)`\.`((?:[^`]|``)+)` "
)
_SCHEMA = re.compile(
    r"CREATE SCHEMA IF NOT EXISTS `spark_catalog`\.`((?:[^`]|``)+)` COMMENT '([^']*)'"
)
_COMMENT = re.compile(r" COMMENT '((?:[^'\\]|\\.)*)' LOCATION ")
_NEEDS = {
    r"CREATE SCHEMA": ("CREATE SCHEMA", "Catalog", CATALOG),
    r"CREATE TABLE": ("CREATE EXTERNAL TABLE", "External Location", "lake"),
    r".": ("USE CATALOG", "Catalog", CATALOG),
}
"""What statements need: privilege, kind and name, by how they begin."""


@dataclass
class Unity:
    """The tables of one catalog, and what the principal lacks."""

    engine: Engine
    missing: set[str] = field(default_factory=set)
    """Privileges that the principal does not have."""
    locations: list[dict[str, Any]] = field(default_factory=list)
    grants: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    columns: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Columns of Delta tables as they were registered."""
    properties: dict[str, dict[str, str]] = field(default_factory=dict)
    """Properties of tables that the API made: Spark would write them into the Delta log."""
    comments: dict[str, str] = field(default_factory=dict)
    vended: dict[str, Any] = field(default_factory=dict)

    # Permissions

    def refusal(self, statement: str) -> str:
        """What a workspace says of a statement that lacks a privilege; empty if it lacks none."""
        for begin, (privilege, kind, name) in _NEEDS.items():
            if re.match(begin, statement) and privilege in self.missing:
                text = f"User does not have {privilege} on {kind} '{name}'."
                return f"[INSUFFICIENT_PERMISSIONS] Insufficient privileges: {text} SQLSTATE: 42501"
        return ""

    def need(self, privilege: str, kind: str, name: str) -> None:
        if privilege in self.missing:
            text = f"User does not have {privilege} on {kind} '{name}'."
            raise Refused(403, "PERMISSION_DENIED", text)

    # Statements

    def follow(self, statement: str) -> None:
        """Remember what Spark does not keep of a statement that it has executed."""
        if match := _CREATE.match(statement):
            schema, name = (part.replace("``", "`") for part in match.groups())
            comment = _COMMENT.search(statement)
            if comment and f"{schema}.{name}" not in self.comments:
                self.comments[f"{schema}.{name}"] = re.sub(r"\\(.)", r"\1", comment[1])
            self._describe(schema, name)
        elif match := _SCHEMA.match(statement):
            self.comments.setdefault(match[1].replace("``", "`"), match[2])
        elif statement.startswith("DROP TABLE"):
            parts = re.findall(r"`((?:[^`]|``)+)`", statement)
            self._forget(".".join(parts[1:]))

    def sync_metadata(self, schema: str, name: str) -> None:
        self._get(schema, name)
        self.columns.pop(f"{schema}.{name}", None)
        self._describe(schema, name)

    # The API

    def schemas(self, _: Request) -> Answer:
        self.need("USE CATALOG", "Catalog", CATALOG)
        rows = self.engine.ask(sql=f"SHOW SCHEMAS IN {CATALOG}")["rows"]
        return {"schemas": [self._schema(row[0]) for row in rows]}

    def _schema(self, name: str) -> dict[str, Any]:
        comment = {"comment": self.comments[name]} if name in self.comments else {}
        full = f"{CATALOG}.{name}"
        return {"name": name, "catalog_name": CATALOG, "full_name": full, **comment}

    def schema(self, request: Request) -> Answer:
        self.need("USE CATALOG", "Catalog", CATALOG)
        name = request.rest.removeprefix(f"{CATALOG}.")
        if name not in self._schema_names():
            raise Refused(404, "SCHEMA_DOES_NOT_EXIST", f"Schema '{request.rest}' does not exist.")
        return self._schema(name)

    def _schema_names(self) -> list[str]:
        return [row[0] for row in self.engine.ask(sql=f"SHOW SCHEMAS IN {CATALOG}")["rows"]]

    def create_schema(self, request: Request) -> Answer:
        self.need("CREATE SCHEMA", "Catalog", CATALOG)
        name = request.values["name"]
        if name in self._schema_names():
            raise Refused(409, "SCHEMA_ALREADY_EXISTS", f"Schema '{name}' already exists")
        self.engine.ask(sql=f"CREATE SCHEMA {CATALOG}.{_quoted(name)}")
        self.comments[name] = request.values.get("comment", "")
        return self._schema(name)

    def tables(self, request: Request) -> Answer:
        self.need("USE CATALOG", "Catalog", CATALOG)
        schema = request.values["schema_name"]
        if schema not in self._schema_names():
            raise Refused(404, "SCHEMA_DOES_NOT_EXIST", f"Schema '{schema}' does not exist.")
        found = self.engine.ask(describe=schema)["tables"]
        return {"tables": [self._table(schema, one) for one in found]}

    def table(self, request: Request) -> Answer:
        self.need("USE CATALOG", "Catalog", CATALOG)
        _, schema, name = request.rest.split(".", 2)
        return self._get(schema, name)

    def _get(self, schema: str, name: str) -> dict[str, Any]:
        found = self.engine.ask(describe=schema, table=name)
        if "error" in found:
            raise Refused(404, "TABLE_DOES_NOT_EXIST", f"Table '{schema}.{name}' does not exist.")
        return self._table(schema, found["tables"][0])

    def _describe(self, schema: str, name: str) -> None:
        self._get(schema, name)

    def create_table(self, request: Request) -> Answer:
        given = request.values
        schema, name = given["schema_name"], given["name"]
        full = f"{schema}.{name}"
        self.need("CREATE EXTERNAL TABLE", "External Location", "lake")
        self.need("EXTERNAL USE LOCATION", "External Location", "lake")
        self.need("EXTERNAL USE SCHEMA", "Schema", f"{CATALOG}.{schema}")
        if (given["table_type"], given["data_source_format"]) != ("EXTERNAL", "DELTA"):
            raise Refused(400, "INVALID_PARAMETER_VALUE", "Only external Delta tables")
        if self.engine.ask(describe=schema, table=name).get("tables"):
            raise Refused(409, "TABLE_ALREADY_EXISTS", f"Table '{full}' already exists")
        _check_columns(given["columns"])
        # The catalog neither reads nor writes the files, but Spark does: its table is elsewhere.
        fields = ", ".join(f"{_quoted(c['name'])} {c['type_text']}" for c in given["columns"])
        keys = ", ".join(_quoted(c["name"]) for c in _partition_columns(given["columns"]))
        by = f" PARTITIONED BY ({keys})" if keys else ""
        made = self.engine.ask(
            sql=f"CREATE TABLE {CATALOG}.{_quoted(schema)}.{_quoted(name)} ({fields}) USING PARQUET"
            f"{by} LOCATION '{given['storage_location']}'"
        )
        if "error" in made:
            raise Refused(400, "INVALID_PARAMETER_VALUE", made["error"])
        self.columns[full] = given["columns"]
        self.properties[full] = given.get("properties", {})
        return self._get(schema, name)

    def _table(self, schema: str, found: Mapping[str, Any]) -> dict[str, Any]:
        name = found["table_name"]
        full = f"{schema}.{name}"
        is_delta = found["provider"].lower() == "delta" or full in self.properties
        columns = [_column(found, *one) for one in enumerate(found["columns"])]
        if is_delta:
            columns = self.columns.setdefault(full, columns)
        return {
            "name": name,
            "schema_name": schema,
            "catalog_name": CATALOG,
            "full_name": f"{CATALOG}.{full}",
            "table_type": found["type"],
            "data_source_format": "DELTA" if is_delta else found["provider"].upper(),
            "storage_location": found["location"],
            "columns": columns,
            "properties": self.properties.get(full) or found.get("table_properties", {}),
            "comment": found.get("comment") or self.comments.get(full, ""),
        }

    def delete_table(self, request: Request) -> Answer:
        _, schema, name = request.rest.split(".", 2)
        self._get(schema, name)
        self.engine.ask(sql=f"DROP TABLE {CATALOG}.{_quoted(schema)}.{_quoted(name)}")
        self._forget(f"{schema}.{name}")
        return {}

    def _forget(self, full: str) -> None:
        for kept in (self.columns, self.properties, self.comments, self.grants):
            kept.pop(full, None)  # type: ignore[attr-defined]

    def permissions(self, request: Request) -> Answer:
        full = request.rest.removeprefix(f"{CATALOG}.")
        for change in request.values.get("changes", ()):
            given = {"principal": change["principal"], "privileges": change["add"]}
            self.grants.setdefault(full, []).append(given)
        return {"privilege_assignments": self.grants.get(full, [])}

    def vend(self, request: Request) -> Answer:
        self.need("EXTERNAL USE LOCATION", "External Location", "lake")
        if not self.vended:
            raise Refused(
                403, "PERMISSION_DENIED", "External data access is not enabled on the metastore"
            )
        return {"url": request.values["url"], **self.vended}

    def empty(self) -> None:
        """Drop all schemas."""
        if self.engine.process is None:
            return
        for name in self._schema_names():
            if name != "default":
                self.engine.ask(sql=f"DROP SCHEMA {CATALOG}.{_quoted(name)} CASCADE")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _partition_columns(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = [one for one in columns if one.get("partition_index") is not None]
    return sorted(keys, key=lambda one: int(one["partition_index"]))


def _check_columns(columns: list[dict[str, Any]]) -> None:
    """What the documentation asks for: Spark must be able to read the columns."""
    for number, one in enumerate(columns):
        field = json.loads(one["type_json"])
        assert field["name"] == one["name"]
        assert one["position"] == number
        assert one["type_name"] in ("STRING", "LONG", "BOOLEAN", "TIMESTAMP", "DECIMAL")


def _column(table: Mapping[str, Any], position: int, found: Mapping[str, Any]) -> dict[str, Any]:
    kind = found["type"]
    text = kind["name"]
    if text == "decimal":
        text = f"decimal({kind['precision']},{kind['scale']})"
    text = text.removesuffix("_ltz")
    keys = table.get("partition_columns", [])
    name = found["name"]
    index = {"partition_index": keys.index(name)} if name in keys else {}
    return {
        "name": name,
        "type_text": text,
        "type_name": _TYPE_NAMES.get(kind["name"], kind["name"].upper().partition("_")[0]),
        "position": position,
        "nullable": True,
        **({"comment": found["comment"]} if found.get("comment") else {}),
        **index,
    }


def unity_routes(here: Unity) -> dict[str, Any]:
    api = "/api/2.1/unity-catalog"
    return {
        f"GET {api}/schemas": here.schemas,
        f"GET {api}/schemas/": here.schema,
        f"POST {api}/schemas": here.create_schema,
        f"GET {api}/tables": here.tables,
        f"GET {api}/tables/": here.table,
        f"POST {api}/tables": here.create_table,
        f"DELETE {api}/tables/": here.delete_table,
        f"GET {api}/external-locations": lambda _: {"external_locations": here.locations},
        f"GET {api}/permissions/TABLE/": here.permissions,
        f"PATCH {api}/permissions/TABLE/": here.permissions,
        "POST /api/2.0/unity-catalog/temporary-path-credentials": here.vend,
    }

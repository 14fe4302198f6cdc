"""SQL warehouses of the stand-in: statements are executed by Spark with Delta."""

import itertools
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.databricks.engine import Engine
from tests.databricks.http_server import Answer, Refused, Request
from tests.databricks.unity import Unity

SMALL = {
    "id": "small1",
    "name": "small",
    "state": "RUNNING",
    "cluster_size": "2X-Small",
    "enable_serverless_compute": True,
}
_SYNC = re.compile(r"MSCK REPAIR TABLE `spark_catalog`\.`([^`]+)`\.`([^`]+)` SYNC METADATA")
"""What Databricks knows and Spark does not."""


@dataclass
class Warehouses:
    """Warehouses by id, and the statements that they were given."""

    engine: Engine
    unity: Unity
    every: dict[str, dict[str, Any]] = field(default_factory=lambda: {"small1": dict(SMALL)})
    usable: bool = True
    """Whether the principal has CAN USE."""
    is_slow: bool = False
    """Whether statements are first answered as running."""
    statements: list[str] = field(default_factory=list)
    running: "dict[str, Future[Mapping[str, Any]]]" = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))

    def get(self, number: str) -> dict[str, Any]:
        if number not in self.every:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"SQL warehouse {number} does not exist.")
        return self.every[number]

    def create(self, request: Request) -> Answer:
        if request.values["name"] in {one["name"] for one in self.every.values()}:
            raise Refused(400, "INVALID_PARAMETER_VALUE", "Cannot create with duplicated name")
        made = {"id": f"made{next(self.numbers)}", "state": "STARTING", **request.values}
        self.every[made["id"]] = made
        return {"id": made["id"]}

    def execute(self, request: Request) -> Answer:
        self.get(request.values["warehouse_id"])["state"] = "RUNNING"  # a statement starts it
        if not self.usable:
            raise Refused(
                403, "PERMISSION_DENIED", "You do not have permission to use the SQL Warehouse."
            )
        statement = request.values["statement"]
        self.statements.append(statement)
        number = f"01f0-{next(self.numbers)}"
        self.running[number] = self.pool.submit(self._run, statement)
        if self.is_slow:
            return {"statement_id": number, "status": {"state": "RUNNING"}}
        return self.result(number)

    def result(self, number: str) -> Answer:
        return {"statement_id": number, **self.running[number].result()}

    def _run(self, statement: str) -> Mapping[str, Any]:
        if refusal := self.unity.refusal(statement):
            return _failed(refusal)
        if match := _SYNC.fullmatch(statement):
            return self._sync(*match.groups())
        found = self.engine.ask(sql=statement)
        if "error" in found:
            return _failed(found["error"])
        self.unity.follow(statement)
        rows = found["rows"]
        columns = [
            {"name": name, "type_text": kind.upper(), "type_name": "STRING", "position": number}
            for number, (name, kind) in enumerate(found["columns"])
        ]
        return {
            "status": {"state": "SUCCEEDED"},
            "manifest": {
                "format": "JSON_ARRAY",
                "schema": {"column_count": len(columns), "columns": columns},
                "total_row_count": len(rows),
            },
            "result": {"chunk_index": 0, "row_offset": 0, "data_array": rows},
        }

    def _sync(self, schema: str, name: str) -> Mapping[str, Any]:
        try:
            self.unity.sync_metadata(schema, name)
        except Refused as problem:
            return _failed(f"[TABLE_OR_VIEW_NOT_FOUND] {problem}")
        return {"status": {"state": "SUCCEEDED"}}


def _failed(message: str) -> Mapping[str, Any]:
    return {
        "status": {"state": "FAILED", "error": {"error_code": "BAD_REQUEST", "message": message}}
    }


def warehouse_routes(here: Warehouses) -> dict[str, Any]:
    return {
        "GET /api/2.0/sql/warehouses": lambda _: {"warehouses": list(here.every.values())},
        "POST /api/2.0/sql/warehouses": here.create,
        "GET /api/2.0/sql/warehouses/": lambda r: here.get(r.rest),
        "POST /api/2.0/sql/statements": here.execute,
        "GET /api/2.0/sql/statements/": lambda r: here.result(r.rest),
    }

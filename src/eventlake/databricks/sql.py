"""Statements on a SQL warehouse of a workspace: the one of the settings, the smallest, or a new."""

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.sql import (
    CreateWarehouseRequestWarehouseType,
    EndpointInfo,
    ExecuteStatementRequestOnWaitTimeout,
    State,
    StatementResponse,
    StatementState,
)

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.databricks.grants import find_grant
from eventlake.databricks.workspace import Workspace, is_missing
from eventlake.errors import (
    EventLakeError,
    InsufficientPermissions,
    Internal,
    InvalidSettings,
    LimitExceeded,
)

NAME = "eventlake"
"""The name of a warehouse that EventLake creates."""
SIZES = ("2X-Small", "X-Small", "Small", "Medium", "Large", "X-Large", "2X-Large", "3X-Large")
STOP_MINUTES = 10
"""A new warehouse stops after this time without a statement."""
WAIT_SECONDS = 50
"""How long the workspace holds back the answer of a statement that is not done."""
POLL_SECONDS = 2.0
_RUNNING = (StatementState.PENDING, StatementState.RUNNING)
_DENIED = ("INSUFFICIENT_PERMISSIONS", "PERMISSION_DENIED", "does not have")
_LIMITS = ("QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "exceeds the limit")
_lock = threading.Lock()
_CODE = re.compile(r"\[([A-Z0-9_.]+)\]")


class SqlError(Internal):
    """A statement that failed; `sql_code` is the error's name, such as PARSE_SYNTAX_ERROR."""

    def __init__(self, message: str, sql_code: str) -> None:
        super().__init__(message)
        self.sql_code = sql_code


@dataclass(frozen=True)
class Warehouse:
    """The warehouse for a lake's statements; nothing is asked before the first statement."""

    workspace: Workspace
    warehouse_id: str = ""
    clock: Clock = SYSTEM_CLOCK

    def execute(self, statement: str) -> Sequence[Sequence[str | None]]:
        """Execute a statement and return its rows; raises SqlError if it fails."""
        with self._errors():
            answer = self.workspace.client.statement_execution.execute_statement(
                statement,
                self.id,
                wait_timeout=f"{WAIT_SECONDS}s",
                on_wait_timeout=ExecuteStatementRequestOnWaitTimeout.CONTINUE,
            )
            while answer.status and answer.status.state in _RUNNING:
                self.clock.sleep(POLL_SECONDS)
                number = answer.statement_id or ""
                answer = self.workspace.client.statement_execution.get_statement(number)
        return self._read_rows(statement, answer)

    def _read_rows(
        self, statement: str, answer: StatementResponse
    ) -> Sequence[Sequence[str | None]]:
        status = answer.status
        if status is None or status.state is not StatementState.SUCCEEDED:
            error = status.error if status else None
            state = status.state.value if status and status.state else "lost"
            raise self._failure(statement, (error and error.message) or state)
        return (answer.result.data_array or []) if answer.result else []

    def _failure(self, statement: str, message: str) -> EventLakeError:
        text = message.strip().split("\n")[0]
        if any(word in message for word in _DENIED):
            grant = find_grant(message, self.workspace.principal)
            needs = f"run {grant}" if grant else "grant the privilege"
            return InsufficientPermissions(
                f"no permission for a statement: {needs} ({text})", grant
            )
        if any(word in message for word in _LIMITS):
            return LimitExceeded(f"a limit of Unity Catalog was reached: {text}")
        code = _CODE.search(message)
        return SqlError(f"the statement {statement!r} failed: {text}", code[1] if code else "")

    def _errors(self) -> AbstractContextManager[None]:
        return self.workspace.errors(
            f"use the SQL warehouse {self.warehouse_id or NAME}",
            f"give {self.workspace.principal} the permission 'Can use' on the SQL warehouse "
            f"{self.warehouse_id}, and the entitlement 'Databricks SQL access'",
        )

    @property
    def id(self) -> str:
        """The id of the warehouse, which is created if there is no small one."""
        with _lock:  # statements of several tables begin at once
            return self._id

    @cached_property
    def _id(self) -> str:
        if self.warehouse_id:
            self._check(self.warehouse_id)
            return self.warehouse_id
        every = list(self.workspace.client.warehouses.list())
        return next(iter(_smallest(every)), "") or self._create()

    def _check(self, number: str) -> None:
        try:
            found = self.workspace.client.warehouses.get(number)
        except DatabricksError as problem:
            if not is_missing(problem):
                raise
            raise self._gone() from problem
        if found.state in (State.DELETED, State.DELETING):
            raise self._gone()

    def _gone(self) -> InvalidSettings:
        return InvalidSettings(
            f"warehouse_id is {self.warehouse_id!r}: the workspace has no such SQL warehouse: set "
            "another, or remove the setting to use the smallest"
        )

    def _create(self) -> str:
        needs = (
            f"give {self.workspace.principal} the entitlement 'Unrestricted cluster creation', or "
            "set warehouse_id to a SQL warehouse that it may use"
        )
        with self.workspace.errors("create a SQL warehouse", needs):
            try:
                made = self.workspace.client.warehouses.create(
                    name=NAME,
                    cluster_size=SIZES[0],
                    warehouse_type=CreateWarehouseRequestWarehouseType.PRO,
                    enable_serverless_compute=True,
                    auto_stop_mins=STOP_MINUTES,
                    max_num_clusters=1,
                )
            except DatabricksError:
                # Another run, or a request whose answer was lost, may have created it.
                every = self.workspace.client.warehouses.list()
                if found := next((one.id for one in every if one.name == NAME), None):
                    return found
                raise
        return str(made.id)

    def describe(self) -> str:
        """The warehouse and its state, for the check of a lake."""
        with self._errors():
            found = self.workspace.client.warehouses.get(self.id)
        state = found.state.value.lower() if found.state else "unknown"
        return f"{found.name} ({self.id}), {found.cluster_size}, is {state}"


def _smallest(warehouses: Sequence[EndpointInfo]) -> list[str]:
    """The ids of serverless and of the smallest warehouses, best first."""
    usable = [
        one
        for one in warehouses
        if one.state not in (State.DELETED, State.DELETING)
        and (one.enable_serverless_compute or one.cluster_size == SIZES[0])
    ]
    sizes: Mapping[str, int] = {name: number for number, name in enumerate(SIZES)}

    def rank(one: EndpointInfo) -> tuple[int, bool, bool, str]:
        size = sizes.get(one.cluster_size or "", len(SIZES))
        is_off = one.state is not State.RUNNING
        return size, not one.enable_serverless_compute, is_off, one.id or ""

    return [one.id or "" for one in sorted(usable, key=rank)]

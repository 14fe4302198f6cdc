"""Sync reports: section 9, field by field."""

import json
import re

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.errors import Conflict
from eventlake.model.commit import Commit, Counts, DataFile, TableCommit
from eventlake.model.naming import Call, Naming
from eventlake.model.report import (
    Problems,
    failure_lines,
    report_lines,
    run_stamp,
    stamp,
    to_lines,
)
from eventlake.model.schema import Column, new_table
from eventlake.model.settings import source_settings
from eventlake.model.types import Type

RUN = "1793518200123456789"
STARTED = "2026-11-01 07:30:00.123456"
SETTINGS = source_settings(source="web", source_id="src1", workspace="acme", database="shop")
HEAD_FIELDS = {"type", "workspace_id", "source_id", "run_id", "start_time", "finish_time"}
RUN_FIELDS = {"duration_mins", "status", "error", "error_code", "table_name", "database"}
TABLE_FIELDS = {"partitions", "new_columns", "row_count", "is_new", "bytes_written"}
REPLAY_FIELDS = {"replay", "replay_from", "replay_to", "emr_cluster_id", "s3_bucket"}
OUTCOMES = ("received", "duplicate", "suppressed", "quarantined", "skipped", "rescued")
FIELDS = HEAD_FIELDS | RUN_FIELDS | TABLE_FIELDS | REPLAY_FIELDS
FIELDS |= {"files_written", "newest_received_at"}
FIELDS |= {f"{name}_count" for name in OUTCOMES}


def table(name: str, landed: int, is_new: bool) -> TableCommit:
    files = tuple(
        DataFile(
            path=f"{name}{n}",
            rows=1,
            bytes=10,
            partition={"day": "2026-11-01", "hr": "07"},
            stats={"received_at": (0, None, f"2026-11-01T07:0{n}:00.000000Z")},
        )
        for n in range(landed)
    )
    return TableCommit(
        table=new_table(name, Call.TRACK, Naming.WAREHOUSE),
        counts=Counts(received=landed + 1, landed=landed, duplicates=1, rescued=2),
        new_columns=(Column(name="price", type=Type.DECIMAL),) if is_new else (),
        is_new=is_new,
        adds=files,
    )


COMMIT = Commit(
    run_id=RUN,
    settings=SETTINGS,
    inputs=(),
    counts=Counts(
        received=11, landed=3, duplicates=2, suppressed=3, quarantined=2, skipped=1, rescued=4
    ),
    tables=(table("orders", 2, True), table("sign_ups", 1, False)),
)
FINISH = "2026-11-01 07:33:00.123455"
HEAD = {
    "workspace_id": "acme",
    "source_id": "src1",
    "run_id": RUN,
    "start_time": STARTED,
    "finish_time": FINISH,
    "duration_mins": 2,
    "database": "shop",
    "replay": False,
}


def test_the_report_of_a_run() -> None:
    run, orders, sign_ups = report_lines(COMMIT, FINISH, Problems())
    assert run == {
        **HEAD,
        "type": "source",
        "table_name": "",
        "status": "finished",
        "is_new": True,
        "row_count": 3,
        "received_count": 11,
        "duplicate_count": 2,
        "suppressed_count": 3,
        "quarantined_count": 2,
        "skipped_count": 1,
        "rescued_count": 4,
        "bytes_written": 30,
        "files_written": 3,
        "newest_received_at": "2026-11-01 07:01:00.000000",
    }
    assert orders == {
        **HEAD,
        "type": "event",
        "table_name": "orders",
        "status": "finished",
        "is_new": True,
        "partitions": [{"day": "2026-11-01", "hr": "07"}],
        "new_columns": [{"name": "price", "type": "decimal(38,6)"}],
        "row_count": 2,
        "received_count": 3,
        "duplicate_count": 1,
        "suppressed_count": 0,
        "quarantined_count": 0,
        "skipped_count": 0,
        "rescued_count": 2,
        "bytes_written": 20,
        "files_written": 2,
        "newest_received_at": "2026-11-01 07:01:00.000000",
    }
    assert (sign_ups["is_new"], sign_ups["new_columns"]) == (False, [])


def test_no_field_that_the_contract_does_not_name() -> None:
    problems = Problems(orders=("full", "EventLake.LimitExceeded"))
    lines = report_lines(COMMIT, FINISH, problems) + failure_lines(RUN, SETTINGS, "x", "y", FINISH)
    for line in lines:
        assert line.keys() <= FIELDS
        assert None not in line.values()


def test_a_table_that_failed_makes_the_run_partial() -> None:
    problems = Problems(sign_ups=("the catalog is full", "EventLake.LimitExceeded"))
    run, orders, sign_ups = report_lines(COMMIT, FINISH, problems)
    error = {"error": "the catalog is full", "error_code": "EventLake.LimitExceeded"}
    assert run.items() >= {**error, "status": "partial"}.items()
    assert sign_ups.items() >= {**error, "status": "failed"}.items()
    assert orders["status"] == "finished"
    assert "error" not in orders
    assert "error_code" not in orders


def test_a_run_that_failed() -> None:
    (line,) = failure_lines(RUN, SETTINGS, "another run was first", Conflict.code, FINISH)
    assert (
        line.items()
        >= {
            "type": "source",
            "table_name": "",
            "status": "failed",
            "error": "another run was first",
            "error_code": "EventLake.Conflict",
            "row_count": 0,
            "received_count": 0,
            "start_time": STARTED,
        }.items()
    )


@pytest.mark.parametrize(
    ("finish", "minutes"),
    [
        (STARTED, 0),
        ("2026-11-01 07:30:59.999999", 0),
        ("2026-11-01 07:31:00.123455", 0),
        ("2026-11-01 07:31:00.123456", 1),
        ("2026-11-01 09:30:00.000000", 119),
        ("2026-11-02 07:30:00.123456", 1440),
        # A clock that was set back gives no negative time.
        ("2026-11-01 07:00:00.000000", 0),
    ],
)
def test_minutes_are_whole_and_rounded_down(finish: str, minutes: int) -> None:
    assert report_lines(COMMIT, finish, Problems())[0]["duration_mins"] == minutes


def test_times() -> None:
    assert run_stamp(RUN) == STARTED
    assert run_stamp("1793518200000000999") == "2026-11-01 07:30:00.000000"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", stamp(SYSTEM_CLOCK.now()))


def test_one_object_a_line() -> None:
    data = to_lines([{"error": "é\n"}, {"a": 1}])
    assert data == '{"error": "é\\n"}\n{"a": 1}\n'.encode()
    assert [json.loads(line) for line in data.splitlines()] == [{"error": "é\n"}, {"a": 1}]

"""The page on migration is true: its commands run, in order, on a lake that Segment filled."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlake.services.adopt import adopt
from tests import lakes, processes
from tests.aws.moto import Aws
from tests.aws.segments import SOURCE_ID, SegmentLake, event
from tests.aws.test_adopt import LANDED, LATE
from tests.aws.trino import Trino, trino
from tests.deploy.test_policies import FOLDER
from tests.e2e.test_docs import OPTIONS, ROOT, Shown, blocks, missing, shown

__all__ = ["trino"]

PAGE = ROOT / "docs/migrate.md"
BUCKET = "example-eventlake"
PERSON = {**event(300, "2026-11-11T01:00:00Z"), "type": "identify", "traits": {"plan": "free"}}


@pytest.fixture
def segment(aws: Aws) -> SegmentLake:
    """The page's bucket, with 20 rows that Segment landed and 3 events that it did not."""
    lake = SegmentLake(Aws(aws.url, BUCKET))
    lake.aws.make_bucket()
    lake.archive([*LANDED, *LATE, PERSON])
    lake.land(LANDED)
    return lake


def call_aws(aws: Aws, command: str, folder: Path) -> None:
    """Make the call of an `aws` command line with boto3, which checks its parameters."""
    service, operation, *words = shlex.split(command)[1:]
    parameters: dict[str, Any] = {}
    for option in re.split(r"(?:^|\0)--", "\0".join(words))[1:]:
        name, *values = option.split("\0")
        key = "".join(part.capitalize() for part in name.split("-"))
        parameters[key] = [parameter(value, folder) for value in values] or True
        if len(values) == 1 and key != "Permissions":
            parameters[key] = parameters[key][0]
    getattr(aws.client(service), operation.replace("-", "_"))(**parameters)


def parameter(value: str, folder: Path) -> Any:
    if value.startswith("file://"):
        return (folder / value.removeprefix("file://")).read_text()
    if value.startswith("{"):
        return json.loads(value)
    key, equals, rest = value.partition("=")
    return {key: rest} if equals else value


def check_step(step: Shown, aws: Aws, folder: Path) -> None:
    if step.command.startswith("aws "):
        return call_aws(aws, step.command, folder)
    done = processes.command(*shlex.split(step.command)[1:], cwd=folder, env=aws.environ)
    assert done.code == 0, f"{step.command}\n{done.err}"
    line = missing(step.lines, done.out)
    assert line is None, f"{step.command}\ndoes not print\n{line}\nbut\n{done.out}"
    return None


@pytest.mark.spark
def test_the_steps_run_in_order(segment: SegmentLake, tmp_path: Path) -> None:
    for policy in FOLDER.glob("*.json"):
        shutil.copy(policy, tmp_path)
    (settings,) = blocks(PAGE, "toml")
    (tmp_path / "aws.toml").write_text(settings)
    export, *_ = blocks(PAGE, "json")
    (tmp_path / "segment-settings.json").write_text(export)
    before = segment.keys()
    for step in shown(PAGE):
        check_step(step, segment.aws, tmp_path)
    assert set(before) <= set(segment.keys())
    assert len(segment.rows()) == len([*LANDED, *LATE])


def test_the_line_for_cron_is_a_command() -> None:
    (line,) = blocks(PAGE, "cron")
    times, command = line.split()[:5], line.split(maxsplit=5)[5]
    assert all(re.fullmatch(r"\*|\d+", one) for one in times)
    words = shlex.split(command.partition(" >> ")[0])
    name, *options = words[words.index("eventlake") + 1 :]
    assert {one for one in options if one.startswith("--")} <= OPTIONS[name]


def test_all_commands_exist() -> None:
    text = PAGE.read_text()
    assert set(re.findall(r"(?:`|\$ )eventlake ([a-z-]+)", text)) <= OPTIONS.keys()


def test_the_sql_for_athena_runs_on_trino(segment: SegmentLake, trino: Trino) -> None:
    lake = segment.aws.settings()
    adopt("ios-prod", lake=lake, changes={"source_id": SOURCE_ID})
    lakes.sync(lake, "ios-prod")
    reports, hours, view = (trino.rows(sql.strip()) for sql in blocks(PAGE, "sql"))
    assert reports[0][1:3] == ["finished", 3]
    assert [tuple(row[:2]) for row in hours][-2:] == [("2026-11-10", "11"), ("2026-11-11", "00")]
    assert (sum(row[2] for row in hours), view) == (12, [])
    assert trino.rows("select user_id, plan, newest from ios_prod.users") == [["u300", "free", 1]]

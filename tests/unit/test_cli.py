"""The command line over a fake API: what is printed where, and the exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pydantic import Field

from eventlake.cli import reference, show
from eventlake.cli.main import main
from eventlake.cli.options import SourceOptions
from eventlake.cli.progress import ProgressLines
from eventlake.cli.rows import csv_lines, json_lines, number_duplicates
from eventlake.errors import Conflict, InvalidSettings
from eventlake.model.commit import Counts, DataFile, TableCommit
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, new_table
from eventlake.model.settings import SettingChange, SourceSettings
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel
from tests.clocks import SimulatedClock
from tests.processes import Ran

ROOT = Path(__file__).parents[2]
COMMANDS = ("sample", "load", "tables", "schema", "query", "reports", "quarantine", "verify")
HEAVY = ("pyspark", "pyarrow", "duckdb", "numpy", "pandas", "eventlake.services.load")


class LoadResult(FrozenModel):
    """The API's result, as its contract says."""

    run_id: str = "1793500000000000000"
    status: str = "finished"
    message: str = ""
    source: str = "web"
    lake: str = "lake"
    counts: Counts = Counts()
    tables: tuple[TableCommit, ...] = ()
    passed_over: tuple[str, ...] = ()
    already_loaded: int = 0
    compacted_files: int = 0
    warnings: tuple[str, ...] = ()
    files: int = 0
    timings: dict[str, float] = Field(default_factory=dict)
    report: str = ""
    setting_changes: tuple[SettingChange, ...] = ()


@dataclass
class FakeApi:
    """Answers with what it was given and remembers what it was asked."""

    result: Any = field(default_factory=LoadResult)
    lake: Any = None
    asked: dict[str, Any] = field(default_factory=dict)
    raises: BaseException | None = None

    def load(self, paths: list[str], **options: Any) -> Any:
        self.asked = {"paths": paths, **options}
        options["progress"].step("read", 1, 2, 500)
        if self.raises:
            raise self.raises
        return self.result

    def open_lake(self, lake: str) -> Any:
        self.asked = {"lake": lake}
        if self.raises:
            raise self.raises
        return self.lake


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


Run = Callable[..., Ran]


@pytest.fixture
def run(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: str) -> Ran:
        code = main(arguments, api)
        return Ran(code, *capsys.readouterr())

    return ran


def commit(name: str, landed: int = 10, **changes: Any) -> TableCommit:
    table = new_table(name, Call.TRACK, Naming.WAREHOUSE)
    files = (DataFile(path="f", rows=landed, bytes=9, partition={"day": "2026-11-01", "hr": "07"}),)
    counts = Counts(received=landed + 1, landed=landed, duplicates=1, rescued=2)
    return TableCommit(table=table, counts=counts, adds=files, **changes)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# Help and the frame


@pytest.mark.parametrize("arguments", [["--help"], ["load", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = f"""if True:
        import sys
        from eventlake.cli.main import main
        code = main({arguments!r})
        print([name for name in {HEAVY!r} if name in sys.modules])
        sys.exit(code)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_shown(run: Run) -> None:
    assert run("--version").out.startswith("eventlake ")


def test_the_commands_are_those_of_the_docs(run: Run) -> None:
    out = run("--help").out
    for name in COMMANDS:
        assert f"\n  {name} " in out


def test_every_command_has_json() -> None:
    for name, command in reference.list_commands().items():
        assert "--json" in [word for option in command.params for word in option.opts], name


def test_options_of_load_are_the_settings() -> None:
    options = {option.name for option in reference.list_commands()["load"].params}
    fields = SourceSettings.model_fields.items()
    assert {name for name, field in fields if field.description} <= options
    assert SourceOptions(source="web", workspace=None, skip_events=[]).values == {"source": "web"}


@pytest.mark.parametrize("page", ["cli", "settings"])
def test_generated_pages_are_current(page: str) -> None:
    """When this fails: `make docs`."""
    assert (ROOT / f"docs/{page}.md").read_text() == reference.PAGES[page]()


# Failure


def test_a_usage_mistake_ends_with_2(run: Run) -> None:
    ran = run("load", "raw")
    assert (ran.code, ran.out) == (2, "")
    assert "--source" in ran.err


def test_a_wrong_setting_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lake = ("--lake", str(tmp_path / "lake"))
    words = ["load", str(tmp_path), "--source", "web", "--database", "Web Shop", "--quiet"]
    code = main([*words, *lake])
    ran = Ran(code, *capsys.readouterr())
    assert (ran.code, ran.out, list(tmp_path.iterdir())) == (2, "", [])
    assert ran.err == (
        "error: database is 'Web Shop': lower-case letters, digits and '_', at most 64"
        " (EventLake.InvalidSettings)\n"
    )


def test_with_json_a_failure_is_an_object_too(run: Run, api: FakeApi) -> None:
    api.raises = Conflict("another run committed first;\nrun again")
    ran = run("load", "raw", "--source", "web", "--json", "--quiet")
    message = "another run committed first; run again"
    assert ran.code == 1
    assert ran.value == {"error": message, "error_code": "EventLake.Conflict"}
    assert ran.err == f"error: {message} (EventLake.Conflict)\n"


def test_an_unexpected_error_names_the_file_with_its_trace(run: Run, api: FakeApi) -> None:
    api.raises = KeyError("oh")
    ran = run("tables")
    assert (ran.code, ran.out) == (1, "")
    assert "Traceback" not in ran.err
    assert ran.err.startswith("error: unexpected error (KeyError); the traceback is")
    log = Path(ran.err.split("is in ")[1].split(" (EventLake")[0])
    assert "KeyError: 'oh'" in log.read_text()
    log.unlink()


def test_a_file_missing_inside_the_lake_is_not_the_users_mistake(run: Run, api: FakeApi) -> None:
    api.raises = FileNotFoundError(2, "No such file", "lake/segment-data/x")
    ran = run("tables")
    assert ran.code == 1
    Path(ran.err.split("is in ")[1].split(" (EventLake")[0]).unlink()


def test_a_path_of_the_user_that_cannot_be_is_2(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    ran = run("sample", "--events", "10", "--out", str(file))
    assert (ran.code, ran.err) == (
        2,
        f"error: File exists: {file} (EventLake.InvalidSettings)\n",
    )


def test_an_empty_path_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["sample", "--out", ""], ["tables", "--lake", ""]):
        ran = Ran(main(given), *capsys.readouterr())
        assert (ran.code, ran.out) == (2, "")
        assert "an empty path: is a variable unset?" in ran.err


def test_an_unexpected_error_without_a_folder_for_its_trace(
    run: Run, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    api.raises = KeyError("oh")
    ran = run("tables")
    assert (ran.code, ran.out) == (1, "")
    assert "its traceback could not be saved (No such file or directory: set TMPDIR)" in ran.err


def test_no_permission_is_told_as_such(run: Run, api: FakeApi) -> None:
    api.raises = PermissionError(13, "Permission denied", "lake/x")
    ran = run("tables")
    assert (ran.code, ran.err) == (
        1,
        "error: Permission denied: lake/x (EventLake.InsufficientPermissions)\n",
    )


def test_an_interrupt_ends_with_130_and_one_line(run: Run, api: FakeApi) -> None:
    api.raises = KeyboardInterrupt()
    ran = run("load", "raw", "--source", "web", "--quiet")
    assert ran.code == 130
    assert ran.err == "interrupted; run the same command again to finish\n"


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_closed_pipe_is_not_reported_as_an_error(lines: int) -> None:
    code = f"""if True:
        import sys
        from eventlake.cli import show
        from eventlake.cli.failures import run_command
        sys.exit(run_command(lambda: [show.print_line("line") for _ in range({lines})], []))
    """
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


# Load


def test_load_passes_on_what_was_asked(run: Run, api: FakeApi, tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    ids.write_text("\ufeffu1\n\n  u2 \r\n")
    given = "--source web --source-id w1 --workspace acme --lake /lakes/x --naming native"
    more = "--date-partition day --dedup-days 3 --skip-event A --skip-event B --max-columns 9"
    rest = f"--table-prefix p --database d --partition-by-slug --keep-raw --suppress {ids}"
    where = "--master local[1] --temporary-cluster"
    ran = run("load", "a", "b/*.gz", *f"{given} {more} {rest} {where}".split())
    assert ran.code == 0
    del api.asked["progress"]
    assert api.asked == {
        "paths": ["a", "b/*.gz"],
        "lake": "/lakes/x",
        "settings": {
            "source": "web",
            "source_id": "w1",
            "workspace": "acme",
            "date_partition": "day",
            "naming": "native",
            "database": "d",
            "table_prefix": "p",
            "partition_by_slug": True,
            "dedup_days": 3,
            "skip_events": ["A", "B"],
            "max_columns": 9,
        },
        "where": "local[1]",
        "keep_raw": True,
        "suppressed": ["  u2 ", "u1"],
        "temporary_cluster": True,
    }


def test_load_shows_each_table_then_the_balance(run: Run, api: FakeApi) -> None:
    columns = (Column(name="price", type=Type.DECIMAL),)
    api.result = LoadResult(
        counts=Counts(received=101_000, landed=99_990, duplicates=1_000, quarantined=10),
        tables=(commit("cart_viewed", 5), commit("order_completed", 1234, new_columns=columns)),
        timings={"total": 12.34},
        files=3,
    )
    ran = run("load", "raw", "--source", "web")
    lines = words(ran.out)
    assert ["order_completed", "1,234", "1", "2", "1", "1"] in lines
    assert lines.index(["order_completed", "1,234", "1", "2", "1", "1"]) < lines.index(
        ["cart_viewed", "5", "1", "2", "0", "1"]
    )
    assert "received 101,000 = landed 99,990 + duplicates 1,000 + quarantined 10\n" in ran.out
    assert ran.err == "read     1/2  500 rows\n"


def test_load_shows_the_largest_40_of_many_tables(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(tables=tuple(commit(f"t{n:03}", n) for n in range(103)))
    out = run("load", "raw", "--source", "web").out
    assert "t102" in out
    assert "t063" in out
    assert "t062" not in out
    assert "and 63 more tables: `eventlake tables` shows all\n" in out


def test_loading_again_says_so_and_ends_with_0(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(status="nothing", already_loaded=12)
    ran = run("load", "raw", "--source", "web", "--quiet")
    assert ran == Ran(0, "nothing to load: 12 files were loaded before\n", "")


def test_nothing_found_says_so(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(status="nothing", passed_over=("notes.txt",))
    out = run("load", "raw", "--source", "web").out
    assert out == (
        "nothing to load: no raw logs found\npassed over 1 path that is not raw logs: notes.txt\n"
    )


def test_a_load_of_nothing_at_all_fails_and_names_what_is_there(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(status="failed", message="no raw logs in raw", passed_over=("a.csv",))
    assert run("load", "raw", "--source", "web", "--quiet") == Ran(
        1, "passed over 1 path that is not raw logs: a.csv\n", "error: no raw logs in raw\n"
    )


def test_files_passed_over_are_named(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(passed_over=tuple("abcde"), already_loaded=1)
    out = run("load", "raw", "--source", "web").out
    assert "passed over 5 paths that are not raw logs: a, b, c and 2 more\n" in out
    assert "; 1 file was loaded before\n" in out


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [("partial", 3, "partial: disk full\n"), ("failed", 1, "error: disk full\n")],
)
def test_a_load_that_did_not_finish(
    run: Run, api: FakeApi, status: str, code: int, said: str
) -> None:
    api.result = LoadResult(status=status, message="disk full")
    ran = run("load", "raw", "--source", "web", "--quiet")
    assert (ran.code, ran.err) == (code, said)


def test_quiet_leaves_the_balance(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(counts=Counts(received=10, landed=10), tables=(commit("a"),))
    ran = run("load", "raw", "--source", "web", "--quiet")
    assert ran == Ran(0, "received 10 = landed 10\nfinished in 0.0 s\n", "")


def test_load_as_json_is_the_whole_result(run: Run, api: FakeApi) -> None:
    api.result = LoadResult(tables=(commit("a"),), passed_over=("x",))
    ran = run("load", "raw", "--source", "web", "--json")
    assert LoadResult.model_validate(ran.value) == api.result


def test_books_that_do_not_balance_are_shown_so() -> None:
    assert (
        show.format_balance(Counts(received=3, landed=1, skipped=1))
        == "received 3 ≠ landed 1 + skipped 1"
    )


# Progress


def test_plain_progress_is_a_line_at_the_ends_and_now_and_then() -> None:
    out, clock = StringIO(), SimulatedClock(datetime(2026, 11, 1, tzinfo=UTC))
    lines = ProgressLines(out, clock)
    lines.step("plan", 0, 0, 0)
    for seconds, done in ((1, 0), (1, 1), (5, 2), (3, 4), (0.5, 4)):
        clock.sleep(seconds)
        lines.step("read", done, 4, done * 1000)
    clock.sleep(9.5)
    lines.step("commit", 1, 1, 0)
    assert out.getvalue().splitlines() == [
        "plan",
        "read     0/4",
        "read     2/4  2,000 rows  333 rows/s  0:00:06 left",
        "read     4/4  4,000 rows  444 rows/s",
        "commit",
    ]


def test_live_progress_has_a_bar_for_each_stage() -> None:
    from rich.console import Console
    from rich.progress import Progress

    from eventlake.cli.progress import ProgressBars, RowsColumn

    out = StringIO()
    with Progress(
        "{task.description}", RowsColumn(), console=Console(file=out, force_terminal=True)
    ) as bars:
        live = ProgressBars(bars)
        live.step("plan", 0, 0, 0)
        live.step("read", 1, 2, 1234)
        assert [(task.description, task.finished) for task in bars.tasks] == [
            ("plan", True),
            ("read", False),
        ]
        live.finish()
        assert all(task.finished for task in bars.tasks)
    assert "1,234 rows" in out.getvalue()


# A lake


TABLE = SimpleNamespace(
    database="web",
    name="orders",
    source="web",
    rows=1_234_567,
    columns=tuple(range(20)),
    partitions=3,
    bytes=4_500_000,
    files=4,
)


class Info(FrozenModel):
    name: str
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    pinned: tuple[str, ...] = ()


def test_tables_are_listed(run: Run, api: FakeApi) -> None:
    api.lake = SimpleNamespace(tables=lambda: [TABLE])
    ran = run("tables", "--lake", "there")
    assert api.asked == {"lake": "there"}
    assert ["web.orders", "web", "1,234,567", "20", "3", "4", "4.5", "MB"] in words(ran.out)
    assert ran.out.endswith("1 table, 1,234,567 rows, 4.5 MB\n")


def test_a_lake_without_tables_says_so(run: Run, api: FakeApi) -> None:
    api.lake = SimpleNamespace(tables=list)
    assert run("tables").out == "the lake has no tables yet\n"
    assert run("tables", "--json").value == []


def test_schema_shows_the_partition_last(run: Run, api: FakeApi) -> None:
    columns = (Column(name="id", type=Type.STRING), Column(name="price", type=Type.DECIMAL))
    info = Info(name="orders", columns=columns, partition_columns=("day", "hr"))
    api.lake = SimpleNamespace(schema=lambda name: info)
    out = run("schema", "web.orders").out
    lines = [line.strip().split(maxsplit=1) for line in out.splitlines()]
    assert [line for line in lines if len(line) == 2][1:] == [
        ["id", "string"],
        ["price", "decimal(38,6)"],
        ["day", "string, partition"],
        ["hr", "string, partition"],
    ]
    assert run("schema", "web.orders", "--json").value["partition_columns"] == ["day", "hr"]


def test_reports_are_one_line_a_run_the_newest_last(run: Run, api: FakeApi) -> None:
    lines = [
        {
            "type": "source",
            "run_id": "2",
            "start_time": "2026-11-02 00:00:00.000000",
            "status": "finished",
            "row_count": 1000,
        },
        {"type": "event", "run_id": "2", "table_name": "orders"},
        {
            "type": "source",
            "run_id": "1",
            "start_time": "2026-11-01 00:00:00.000000",
            "status": "failed",
            "error_code": "EventLake.Internal",
        },
    ]
    api.lake = SimpleNamespace(reports=lambda source: lines)
    out = run("reports", "--source", "web").out
    runs = [line for line in words(out) if line and line[0] in "12"]
    assert [line[0] for line in runs] == ["1", "2"]
    assert runs[0][-1] == "EventLake.Internal"
    assert "1,000" in runs[1]
    assert run("reports", "--source", "web", "--json").value == lines


def test_quarantine_counts_reasons_and_shows_lines_safely(run: Run, api: FakeApi) -> None:
    row = {"reason": "not_json", "detail": "bad", "file": "/raw/a.gz", "line": 7, "run_id": "1"}
    rows = [row | {"raw": b"\xff\x1b[31m[b]:smile:"}] * 25
    api.lake = SimpleNamespace(quarantine=lambda source: rows)
    out = run("quarantine", "--source", "web").out
    assert ["not_json", "25"] in words(out)
    assert "a.gz:7" in out
    assert r"\xff\x1b[31m[b]:smile:" in out
    assert "\x1b" not in out
    assert "and 5 more lines: --json shows all\n" in out
    assert (
        run("quarantine", "--source", "web", "--json").value[0]["raw"] == "\\xff\x1b[31m[b]:smile:"
    )


def test_an_empty_quarantine_says_so(run: Run, api: FakeApi) -> None:
    api.lake = SimpleNamespace(quarantine=lambda source: [])
    assert run("quarantine", "--source", "web").out == "the quarantine is empty\n"


# Query


ANSWER = pa.table(
    {
        "n": pa.array([2**63 - 1, None]),
        "price": pa.array([Decimal("19.990000"), None], pa.decimal128(38, 6)),
        "at": pa.array(
            [datetime(2026, 11, 1, 7, 0, 0, 1500, UTC), None], pa.timestamp("us", "UTC")
        ),
        "hour": pa.array([datetime(2026, 11, 1, 7), None], pa.timestamp("us")),
        "gift": pa.array([True, None]),
        "text": pa.array(['say "hi", [b]x[/b]', ""]),
        "ratio": pa.array([0.1, None]),
        "tags": pa.array([["a"], None]),
    }
)


FIRST = (
    "9223372036854775807,19.990000,2026-11-01T07:00:00.001500Z,2026-11-01T07:00:00,true,"
    '"say ""hi"", [b]x[/b]",0.1,"[""a""]"'
)


def test_csv_is_exact_and_tells_null_from_empty() -> None:
    assert list(csv_lines(ANSWER)) == [
        "n,price,at,hour,gift,text,ratio,tags",
        FIRST,
        ',,,,,"",,',
    ]


def test_json_lines_are_exact() -> None:
    first, second = json_lines(ANSWER)
    assert first == (
        '{"n":9223372036854775807,"price":19.990000,"at":"2026-11-01T07:00:00.001500Z",'
        '"hour":"2026-11-01T07:00:00","gift":true,"text":"say \\"hi\\", [b]x[/b]","ratio":0.1,'
        '"tags":["a"]}'
    )
    assert json.loads(second) == dict.fromkeys(ANSWER.column_names) | {"text": ""}


def test_columns_with_one_name_keep_their_values() -> None:
    assert number_duplicates(["n", "n", "n_2", "n"]) == ["n", "n_2", "n_2_2", "n_3"]
    twice = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert list(json_lines(twice)) == ['{"n":1,"n_2":2}']
    assert list(csv_lines(twice)) == ["n,n", "1,2"]


@pytest.mark.parametrize(
    ("form", "lines"),
    [("csv", ["day,n", "2026-11-01,1234"]), ("json", ['{"day":"2026-11-01","n":1234}'])],
)
def test_query_prints_in_the_form_asked_for(
    run: Run, api: FakeApi, form: str, lines: list[str]
) -> None:
    answered = pa.table({"day": ["2026-11-01"], "n": [1234]})
    asked = []
    api.lake = SimpleNamespace(query=lambda sql, engine: asked.append((sql, engine)) or answered)
    ran = run("query", "select 1", "--format", form, "--engine", "spark")
    assert ran == Ran(0, "\n".join(lines) + "\n", "")
    assert asked == [("select 1", "spark")]
    assert run("query", "select 1", "--json").value == [{"day": "2026-11-01", "n": 1234}]
    assert ["2026-11-01", "1234"] in words(run("query", "select 1").out)


def test_a_table_for_the_eye_ends_somewhere(run: Run, api: FakeApi) -> None:
    api.lake = SimpleNamespace(query=lambda sql, engine: pa.table({"n": range(1_500)}))
    out = run("query", "select 1").out
    assert out.splitlines()[-1] == "and 500 more rows: --format csv shows all"


def test_rows_wider_than_the_screen_stand_below_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "make_console", lambda: show.Console(width=40, markup=False))
    show.query_result(ANSWER, show.OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "row 1\n" in out
    assert ["price", "19.990000"] in words(out)


def test_a_wrong_query_is_2(run: Run, api: FakeApi) -> None:
    def refuse(sql: str, engine: str) -> None:
        raise InvalidSettings("Parser Error: syntax error")

    api.lake = SimpleNamespace(query=refuse)
    ran = run("query", "selec")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: Parser Error: syntax error (EventLake.InvalidSettings)\n"


# Sample and verify


def test_sample_writes_files_and_says_what(run: Run, tmp_path: Path) -> None:
    asked = ["sample", "--events", "200", "--types", "12", "--hours", "2", "--bad", "0.05"]
    ran = run(*asked, "--out", str(tmp_path), "--json", "--quiet")
    assert ran.err == ""
    assert (ran.value["events"], ran.value["bad"], ran.value["duplicates"]) == (200, 10, 2)
    assert len(list(tmp_path.iterdir())) == ran.value["files"] == 2
    again = run(*asked, "--out", str(tmp_path))
    assert "200 events, 2 duplicates, 10 invalid lines\n" in again.out
    assert "200/200" in again.err


def test_a_sample_that_cannot_be_is_refused(run: Run) -> None:
    ran = run("sample", "--events", "0")
    assert (ran.code, ran.err) == (
        2,
        "error: events is 0: it should be greater than or equal to 1 (EventLake.InvalidSettings)\n",
    )


@pytest.mark.parametrize(("missing", "code"), [(0, 0), (1, 1)])
def test_verify_ends_with_1_when_something_is_wrong(
    run: Run, api: FakeApi, missing: int, code: int
) -> None:
    from eventlake.verify import TableCheck, Verification

    check = TableCheck(table="orders", expected=5, found=5 - missing, missing=missing)
    found = Verification(
        source="web",
        files_read=1,
        lines=6,
        events=5,
        landed=5 - missing,
        expected=5,
        tables=(check,),
        problems=("orders: 1 id is missing",) * missing,
    )

    def verify(source: str, progress: Any) -> Verification:
        assert (api.asked, source) == ({"lake": "there"}, "web")
        if progress:
            progress("reading")
        return found

    api.lake = SimpleNamespace(verify=verify)
    ran = run("verify", "--source", "web", "--lake", "there")
    assert (ran.code, ran.err) == (code, "reading\n")
    assert ("problem: orders: 1 id is missing\n" in ran.out) is bool(missing)
    quiet = run("verify", "--source", "web", "--lake", "there", "--json", "--quiet")
    assert (quiet.code, quiet.err, quiet.value["ok"]) == (code, "", not missing)

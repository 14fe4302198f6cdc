"""Objects of a lake that are gone, damaged or not ours: each is named, and the advice works."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlake.cli.main import main
from eventlake.errors import Damaged
from eventlake.ledger import Ledger
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.tunables import LedgerTunables
from eventlake.services.read import open_lake
from eventlake.services.repair import repair
from eventlake.stores import Disk
from eventlake.verify import LakeFiles, Verification, verify
from tests import lakes

LEDGER = "segment-data/ledger/web"
STRAYS = (".DS_Store", "._x.json", "._x.parquet", "notes.txt", "Thumbs.db")


def log(folder: Path, name: str, hour: int = 0) -> Path:
    """Three events, one of them sent twice, and a line that is no event."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    event = {"type": "track", "event": "Order Done", "receivedAt": f"2026-11-01T{hour:02}:00:00Z"}
    lines = [json.dumps(event | {"messageId": f"{name}{n}"}) for n in (0, 1, 2, 2)]
    path.write_text("\n".join([*lines, "{"]))
    return path


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    return [log(tmp_path / "raw", name, hour) for hour, name in enumerate("abc")]


@pytest.fixture
def lake(tmp_path: Path, logs: list[Path]) -> Path:
    """Three loads of a file each."""
    for path in logs:
        assert lakes.load([path], tmp_path / "lake", keep_raw=True).status == "finished"
    assert check(tmp_path / "lake").ok
    return tmp_path / "lake"


@pytest.fixture
def folded(lake: Path) -> Path:
    """The same, with a snapshot of all three commits."""
    ledger = Ledger(Disk(str(lake)), DEFAULT_LAYOUT, "web", LedgerTunables(snapshot_every=3))
    ledger.snapshot_if_due(3)
    assert (lake / LEDGER / "snapshots/000000000003.json").exists()
    return lake


def check(lake: Path) -> Verification:
    return verify(LakeFiles(*Disk(str(lake)).filesystem()), "web")


@contextmanager
def hidden(path: Path) -> Iterator[None]:
    """A file or folder that is not there for a while: a user restores it."""
    away = path.parents[3] / f"away-{path.name}"
    path.rename(away)
    yield
    path.parent.mkdir(parents=True, exist_ok=True)
    away.rename(path)


@contextmanager
def holding(path: Path, content: bytes) -> Iterator[None]:
    """A file that holds something else for a while."""
    before = path.read_bytes()
    path.write_bytes(content)
    yield
    path.write_bytes(before)


Use = Callable[[Path, list[Path]], Any]
USES: dict[str, Use] = {
    "load": lambda lake, logs: lakes.load(logs, lake),
    "sync": lambda lake, _: lakes.sync(lake),
    "tables": lambda lake, _: open_lake(lake).tables(),
    "schema": lambda lake, _: open_lake(lake).schema("web.order_done"),
    "query": lambda lake, _: open_lake(lake).query("select count(*) from web.order_done"),
    "quarantine": lambda lake, _: open_lake(lake).quarantine("web"),
    "verify": lambda lake, _: check(lake),
}
every_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


def one(lake: Path, pattern: str) -> Path:
    return sorted(lake.glob(pattern))[0]


def name(lake: Path, path: Path) -> str:
    return path.relative_to(lake).as_posix()


# A ledger with a hole


@every_use
@pytest.mark.parametrize("number", [1, 2])
def test_a_commit_is_gone(lake: Path, logs: list[Path], use: Use, number: int) -> None:
    with (
        hidden(lake / LEDGER / f"{number:012d}.json"),
        pytest.raises(Damaged, match=f"{LEDGER}/{number:012d}.json.*restore"),
    ):
        use(lake, logs)
    use(lake, logs)
    assert check(lake).ok


@every_use
def test_the_last_commit_of_a_snapshot_is_gone(folded: Path, logs: list[Path], use: Use) -> None:
    with (
        hidden(folded / LEDGER / "000000000003.json"),
        pytest.raises(Damaged, match=f"{LEDGER}/000000000003.json.*restore"),
    ):
        use(folded, logs)
    use(folded, logs)


@pytest.mark.parametrize("number", [1, 2])
def test_a_commit_before_a_snapshot_is_gone(folded: Path, logs: list[Path], number: int) -> None:
    """The snapshot says what it loaded, so nothing is loaded again; `verify` names it."""
    with hidden(folded / LEDGER / f"{number:012d}.json"):
        assert lakes.load(logs, folded).already_loaded == 3
        assert [table.rows for table in open_lake(folded).tables()] == [9]
        with pytest.raises(Damaged, match=f"{LEDGER}/{number:012d}.json.*restore"):
            check(folded)
    assert check(folded).ok


@pytest.mark.parametrize("use", ["load", "sync"])
def test_the_last_commits_are_gone(lake: Path, logs: list[Path], use: str) -> None:
    """The index of ids has files of their runs."""
    with (
        hidden(lake / LEDGER / "000000000003.json"),
        hidden(lake / LEDGER / "000000000002.json"),
        pytest.raises(Damaged, match=f"restore .*{LEDGER}/000000000002.json and the following"),
    ):
        USES[use](lake, logs)
    assert USES[use](lake, logs).already_loaded == 3
    assert check(lake).ok


def test_each_commit_that_is_gone_is_named(folded: Path) -> None:
    for number in (1, 3):
        (folded / LEDGER / f"{number:012d}.json").unlink()
    with pytest.raises(Damaged, match=r"0003\.json"):
        open_lake(folded).tables()
    with pytest.raises(Damaged, match=r"0001\.json, .*0003\.json"):
        check(folded)


@every_use
def test_every_commit_is_gone(lake: Path, logs: list[Path], use: Use) -> None:
    for number in (1, 2, 3):
        (lake / LEDGER / f"{number:012d}.json").unlink()
    with pytest.raises(Damaged, match=f"{LEDGER}/000000000001.json"):
        use(lake, logs)


# Commits and snapshots that cannot be read


@pytest.mark.parametrize("left", [0, 40, -2])
@pytest.mark.parametrize("name", ["load", "sync", "quarantine", "verify"])
def test_half_a_commit(lake: Path, logs: list[Path], name: str, left: int) -> None:
    use = USES[name]
    path = lake / LEDGER / "000000000003.json"
    with (
        holding(path, path.read_bytes()[:left]),
        pytest.raises(Damaged, match=f"{LEDGER}/000000000003.json.*restore"),
    ):
        use(lake, logs)
    use(lake, logs)


@pytest.mark.parametrize(
    "place", ["run_id", "settings.source", "inputs.0.uri", "tables.0.adds.0.bytes", "ids.0.path"]
)
@pytest.mark.parametrize("value", [None, [], {}])
def test_a_commit_with_a_value_of_another_kind(
    lake: Path, logs: list[Path], place: str, value: object
) -> None:
    path = lake / LEDGER / "000000000003.json"
    held = commit = json.loads(path.read_bytes())
    *way, last = place.split(".")
    for key in way:
        held = held[int(key) if key.isdecimal() else key]
    held[last] = value
    path.write_text(json.dumps(commit))
    for use in (USES["load"], USES["verify"]):
        with pytest.raises(Damaged, match=f"{LEDGER}/000000000003.json.*restore"):
            use(lake, logs)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"sequence":2}'])
def test_a_damaged_snapshot_is_not_needed(folded: Path, logs: list[Path], content: bytes) -> None:
    path = folded / LEDGER / "snapshots/000000000003.json"
    path.write_bytes(content)
    assert lakes.load(logs, folded).already_loaded == 3
    (problem,) = check(folded).problems
    assert problem.startswith(f"{name(folded, path)} ")
    assert "eventlake repair" in problem
    repair(folded)
    assert check(folded).ok
    assert not path.exists(), "three commits are too few for a snapshot"
    assert lakes.load(logs, folded).already_loaded == 3


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("inputs", lambda held: held[16:]),
        ("ids", lambda held: held[1:]),
        ("runs", lambda held: dict.fromkeys(held, 1)),
        ("tables", lambda held: {}),
        ("settings", lambda held: held | {"dedup_days": 1}),
    ],
)
def test_a_snapshot_that_differs_from_the_commits(
    folded: Path, field: str, change: Callable[[Any], Any]
) -> None:
    path = folded / LEDGER / "snapshots/000000000003.json"
    state = json.loads(path.read_bytes())
    path.write_text(json.dumps(state | {field: change(state[field])}))
    (problem,) = check(folded).problems
    assert problem.startswith(f"{name(folded, path)} differs from the commits")
    assert field in problem
    repair(folded)
    assert check(folded).ok


@pytest.mark.parametrize("content", [None, b"", b"x", b"\x28\xb5\x2f\xfd"])
def test_a_damaged_manifest(folded: Path, content: bytes | None) -> None:
    path = one(folded, f"{LEDGER}/manifests/*")
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(Damaged, match=f"{name(folded, path)}.*eventlake repair"):
        open_lake(folded).tables()
    (problem,) = check(folded).problems
    assert "snapshots/000000000003.json" in problem
    assert "eventlake repair" in problem
    repair(folded)
    assert check(folded).ok
    assert [table.rows for table in open_lake(folded).tables()] == [9]


# Data files


def rewritten(path: Path, rows: int) -> bytes:
    """The file with another number of rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([pq.ParquetFile(path).read()] * rows), sink)
    return sink.getvalue().to_pybytes()


PARQUET: dict[str, Callable[[Path], bytes]] = {
    "empty": lambda _: b"",
    "nonsense": lambda _: b"nonsense",
    "truncated": lambda path: path.read_bytes()[:-20],
    "damaged inside": lambda path: b"PAR1" + bytes(20) + path.read_bytes()[24:],
}
damages = pytest.mark.parametrize("damage", PARQUET.values(), ids=PARQUET)


@damages
def test_a_damaged_data_file(lake: Path, damage: Callable[[Path], bytes]) -> None:
    path = one(lake, "segment-data/data/**/*.parquet")
    with holding(path, damage(path)):
        assert any(name(lake, path) in problem for problem in check(lake).problems)
        with pytest.raises(Damaged, match=f"{name(lake, path)}.*restore"):
            open_lake(lake).query("select id from web.order_done")
    assert open_lake(lake).query("select id from web.order_done").num_rows == 9
    assert check(lake).ok


def test_a_data_file_with_other_rows(lake: Path) -> None:
    path = one(lake, "segment-data/data/**/*.parquet")
    with holding(path, rewritten(path, 2)):
        problems = check(lake).problems
    assert any("6 rows, not 3" in problem and name(lake, path) in problem for problem in problems)
    assert any("bytes, not" in problem and name(lake, path) in problem for problem in problems)
    assert check(lake).ok


def test_a_data_file_that_another_replaced(lake: Path) -> None:
    first, second, *_ = sorted(lake.glob("segment-data/data/**/*.parquet"))
    pq.write_table(pa.table({"x": [1]}), second.with_suffix(".other"))
    with holding(first, second.read_bytes()):
        assert not check(lake).ok
    with holding(first, second.with_suffix(".other").read_bytes()):
        assert any(name(lake, first) in problem for problem in check(lake).problems)
    assert check(lake).ok


def test_a_data_file_is_gone(lake: Path) -> None:
    path = one(lake, "segment-data/data/**/*.parquet")
    with hidden(path):
        assert any(name(lake, path) in problem for problem in check(lake).problems)
    assert check(lake).ok


def test_a_data_file_too_many(lake: Path) -> None:
    path = one(lake, "segment-data/data/**/*.parquet")
    copy = path.with_name("copy.parquet")
    shutil.copy(path, copy)
    assert any(name(lake, copy) in problem for problem in check(lake).problems)
    copy.unlink()
    assert check(lake).ok


# The index of ids


@pytest.mark.parametrize("use", ["verify", "load"])
def test_an_index_file_is_gone(lake: Path, logs: list[Path], use: str) -> None:
    path = one(lake, f"{LEDGER}/ids/*.parquet")
    with hidden(path):
        assert name(lake, path) in words(use, lake, logs)
    assert check(lake).ok


@damages
@pytest.mark.parametrize("use", ["verify", "load"])
def test_a_damaged_index_file(
    lake: Path, logs: list[Path], damage: Callable[[Path], bytes], use: str
) -> None:
    path = one(lake, f"{LEDGER}/ids/*.parquet")
    with holding(path, damage(path)):
        assert name(lake, path) in words(use, lake, logs)
    assert check(lake).ok


def test_an_index_file_that_another_replaced(lake: Path) -> None:
    first, second, *_ = sorted(lake.glob(f"{LEDGER}/ids/*.parquet"))
    with holding(first, second.read_bytes()):
        assert name(lake, first) in words("verify", lake, [])
    with holding(first, rewritten(first, 2)):
        assert "6 rows, not 3" in words("verify", lake, [])
    assert check(lake).ok


def test_an_index_file_that_no_commit_names(lake: Path) -> None:
    path = one(lake, f"{LEDGER}/ids/*.parquet")
    shutil.copy(path, path.with_name("copy.parquet"))
    assert "ids/copy.parquet" in words("verify", lake, [])


def test_an_index_file_with_another_id(lake: Path) -> None:
    path = one(lake, f"{LEDGER}/ids/*.parquet")
    table = pq.read_table(path, partitioning=None)
    high = pa.array([n ^ 1 for n in table["high"].to_pylist()])
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(0, "high", high), sink)
    with holding(path, sink.getvalue().to_pybytes()):
        assert name(lake, path) in words("verify", lake, [])
    assert check(lake).ok


def words(use: str, lake: Path, logs: list[Path]) -> str:
    """What is said of the lake by `verify`, or by a load of new events of the same hours."""
    if use == "verify":
        return "\n".join(check(lake).problems)
    with pytest.raises(Damaged, match="restore") as problem:
        lakes.load([log(logs[0].parent, "more")], lake)
    return str(problem.value)


# The quarantine


def test_a_quarantine_file_is_gone(lake: Path) -> None:
    path = one(lake, "segment-data/quarantine/**/*.parquet")
    with hidden(path):
        assert any(name(lake, path) in problem for problem in check(lake).problems)
    assert check(lake).ok


@damages
def test_a_damaged_quarantine_file(lake: Path, damage: Callable[[Path], bytes]) -> None:
    path = one(lake, "segment-data/quarantine/**/*.parquet")
    with holding(path, damage(path)):
        assert any(name(lake, path) in problem for problem in check(lake).problems)
        with pytest.raises(Damaged, match=f"{name(lake, path)}.*restore"):
            open_lake(lake).quarantine("web")
    assert open_lake(lake).quarantine("web").num_rows == 3


def test_a_quarantine_file_of_other_columns(lake: Path) -> None:
    path = one(lake, "segment-data/quarantine/**/*.parquet")
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(Damaged, match=name(lake, path)):
        open_lake(lake).quarantine("web")


# Reports and the catalog


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]\n", b"{}\n", b"1\n"])
def test_a_damaged_report(lake: Path, content: bytes) -> None:
    path = one(lake, "segment-data/reports/**/report.json")
    sql = "select * from __segment_datalake.sync_reports"
    with holding(path, path.read_bytes() + content):
        for use in (lambda: open_lake(lake).reports("web"), lambda: open_lake(lake).query(sql)):
            with pytest.raises(Damaged, match=f"{name(lake, path)}.*restore it.*or delete it"):
                use()
    path.unlink()
    assert len(open_lake(lake).reports("web")) == 4
    assert open_lake(lake).query(sql).num_rows == 4


@pytest.mark.parametrize("value", ["1", 1.5, True, [1], {"a": 1}])
def test_a_report_with_a_value_of_another_kind(lake: Path, value: object) -> None:
    path = one(lake, "segment-data/reports/**/report.json")
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps(line | {"row_count": value}))
    with pytest.raises(Damaged, match=name(lake, path)):
        open_lake(lake).query("select * from __segment_datalake.sync_reports")


def test_copies_of_reports_that_are_gone_come_back(lake: Path) -> None:
    copies = lake / "segment-data/sync_reports"
    before = {path: path.read_bytes() for path in copies.rglob("*.json")}
    assert len(before) == 3
    shutil.rmtree(copies)
    (done,) = repair(lake)
    assert done.problems == ()
    assert {path: path.read_bytes() for path in copies.rglob("*.json")} == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"{}"])
def test_a_damaged_table_of_the_catalog(lake: Path, logs: list[Path], content: bytes) -> None:
    """Nothing is read from the catalog; what cannot be registered is left for the next run."""
    path = lake / "segment-data/catalog/web/order_done.json"
    path.write_bytes(content)
    assert [table.rows for table in open_lake(lake).tables()] == [9]
    result = lakes.load([log(logs[0].parent, "more", 5)], lake)
    assert result.status == "partial"
    assert name(lake, path) in result.message
    (done,) = repair(lake)
    assert (done.registered, done.problems) == (("web.order_done",), ())
    assert open_lake(lake).verify("web").ok


# What is not ours


def test_strays_are_left_alone(lake: Path, logs: list[Path]) -> None:
    sql = "select count(*) as n from web.order_done"
    reports = "select count(*) as n from __segment_datalake.sync_reports"
    rows, lines = open_lake(lake).query(sql), open_lake(lake).query(reports)
    tables, quarantine = open_lake(lake).tables(), open_lake(lake).quarantine("web")
    for folder in [lake, *(path for path in lake.rglob("*") if path.is_dir())]:
        for stray in STRAYS:
            (folder / stray).write_bytes(b"\x00\xff")
    assert open_lake(lake).query(sql) == rows
    assert open_lake(lake).query(reports) == lines
    assert open_lake(lake).tables() == tables
    assert open_lake(lake).schema("web.order_done") == tables[0]
    assert open_lake(lake).quarantine("web") == quarantine
    assert len(open_lake(lake).reports("web")) == 6
    assert check(lake).problems == ()
    assert lakes.load(logs, lake).already_loaded == 3
    assert lakes.load([log(logs[0].parent, "d")], lake).status == "finished"
    assert check(lake).problems == ()


def test_a_parquet_file_that_no_commit_names_is_in_no_table(lake: Path) -> None:
    path = one(lake, "segment-data/data/**/*.parquet")
    shutil.copy(path, path.with_name("copy.parquet"))
    shutil.copy(path, path.parents[2] / "copy.parquet")
    (path.parent / "x=1").mkdir()
    shutil.copy(path, path.parent / "x=1/copy.parquet")
    assert [table.rows for table in open_lake(lake).tables()] == [9]
    found = open_lake(lake).query("select count(*) as n from web.order_done").to_pylist()
    assert found == [{"n": 9}]
    assert not check(lake).ok


def test_the_command_names_the_object(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / LEDGER / "000000000001.json").unlink()
    assert main(["tables", "--lake", str(lake)]) == 1
    assert "000000000001.json" in capsys.readouterr().err

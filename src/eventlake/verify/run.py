"""Runs a verification."""

from collections import Counter
from collections.abc import Callable
from tempfile import TemporaryDirectory

import duckdb

from eventlake.verify.archive import read_archive
from eventlake.verify.catalog import Find, check_catalog, check_sources
from eventlake.verify.check import Check
from eventlake.verify.compare import check_counts, compare
from eventlake.verify.delta import check_delta
from eventlake.verify.erasures import find_erased_ids, follow_rewrites, trust_rows_of_erased_ids
from eventlake.verify.files import LakeFiles
from eventlake.verify.index import check_index
from eventlake.verify.ledger import find_folder, read_commits
from eventlake.verify.replay import discount_suppressed, replay
from eventlake.verify.result import TableCheck, Verification
from eventlake.verify.snapshots import check_snapshots
from eventlake.verify.tables import read_tables


def verify(
    files: LakeFiles,
    source: str,
    progress: Callable[[str], None] | None = None,
    catalog: Find | None = None,
) -> Verification:
    """Compare what a source has landed with its archive, and with the catalog if that is given.

    `source` is its slug or id. `progress` gets a line for each step.
    """
    say = progress or (lambda _: None)
    folder = find_folder(files, source)
    with (
        TemporaryDirectory(prefix="eventlake-verify-") as scratch,
        duckdb.connect(config={"temp_directory": scratch, "memory_limit": "2GB"}) as db,
    ):
        check = Check(db, files, folder, follow_rewrites(read_commits(files, folder)))
        say("reading the tables")
        check_snapshots(check)
        read_tables(check)
        check_delta(check)
        check_index(check)
        read_archive(check, say)
        say("comparing")
        replay(check)
        find_erased_ids(check)
        discount_suppressed(check)
        trust_rows_of_erased_ids(check)
        tables = compare(check)
        check_counts(check)
        if catalog:
            check_sources(check)
            check_catalog(check, catalog)
        return _verification(check, source, tables)


def _verification(check: Check, source: str, tables: tuple[TableCheck, ...]) -> Verification:
    loads = (check.recounts[one.seq] for one in check.active if not one.replaces)
    total = sum(loads, Counter[str]())
    return Verification(
        source=source,
        files_read=check.files_read,
        lines=total["received"] - total["damaged_file"],
        events=total["received"] - total["quarantined"],
        landed=sum(table.found for table in tables),
        expected=sum(table.expected for table in tables),
        tables=tables,
        problems=tuple(check.problems),
    )

"""The command line: thin shells over the Python API.

Whatever is slow to import is imported by the command that needs it, so that --help is instant.
"""

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from eventlake.cli import show
from eventlake.cli.failures import FAILED, FINISHED, PARTIAL, guarded
from eventlake.cli.options import (
    LAKE,
    AsJson,
    CollectOptions,
    LakeRoot,
    Quiet,
    RunOptions,
    SampleOptions,
    Source,
    SourceOptions,
    gathered,
)
from eventlake.cli.progress import progress
from eventlake.cli.rows import Form, objects_of, records, to_json

if TYPE_CHECKING:
    from eventlake.api import LoadResult

EXIT_CODES = {"failed": FAILED, "partial": PARTIAL}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Land customer events in a data lake that you own.",
    epilog="Exit codes: 0 finished, 1 failed, 2 usage, 3 partial, 130 interrupted.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is for the caller to pass on."""
    # py4j logs an interrupt with its trace, and would set up a handler that prints it.
    logging.basicConfig(handlers=[logging.NullHandler()])
    given = sys.argv[1:] if arguments is None else list(arguments)
    return guarded(lambda: app(given, prog_name="eventlake"), given)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        show.write(f"eventlake {version('eventlake')}")
        raise typer.Exit


@app.callback()
def eventlake(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Land customer events in a data lake that you own."""


@app.command()
@gathered
def sample(
    options: SampleOptions,
    out: Annotated[str, typer.Option(help="The folder to write into.")] = "raw",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make realistic events of a shop.

    They are written as gzip files of JSON lines. Equal options give identical files.
    """
    from eventlake.sample import make_sample
    from eventlake.stores.paths import parse_path

    spec, folder, done = options.spec(), parse_path(out, "out"), 0
    with progress(quiet) as steps:

        def wrote(events: int) -> None:
            nonlocal done
            done += events
            steps.step("sample", done, spec.events, done)

        made = make_sample(spec, folder, wrote)
    show.answer(made, as_json, show.sample)


@app.command()
@gathered
def load(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Files, folders, globs or pipes of raw events; - for standard input.",
        ),
    ],
    source: SourceOptions,
    run: RunOptions,
    keep_raw: Annotated[
        bool, typer.Option("--keep-raw", help="Copy the files into the lake's archive first.")
    ] = False,
) -> None:
    """Land raw events as typed tables.

    One table for each event type, partitioned by the time of receipt, without duplicates. Files
    that were loaded before are left out; the files themselves stay where they are. What comes
    through a pipe is kept in the lake's archive first.
    """
    settings, suppressed = source.settings(), run.suppressed()
    from eventlake import api

    with progress(run.quiet) as steps:
        result = api.load(
            paths,
            lake=run.lake,
            settings=settings,
            master=run.master,
            keep_raw=keep_raw,
            suppressed=suppressed,
            temporary_cluster=run.temporary_cluster,
            progress=steps,
        )
    _show_load(result, run)


def _show_load(result: "LoadResult", run: RunOptions) -> None:
    show.answer(result, run.as_json, show.load_summary if run.quiet else show.load_result)
    show.load_remark(result)
    raise typer.Exit(EXIT_CODES.get(result.status, FINISHED))


@app.command()
@gathered
def serve(
    source: Source,
    options: CollectOptions,
    lake: LakeRoot = LAKE,
    as_json: AsJson = False,
) -> None:
    """Take events from Segment's SDKs into the raw archive.

    Answers the Segment tracking API; an event is acknowledged when it is on disk. `eventlake sync`
    lands what has been archived. Stops on SIGTERM, with everything archived.
    """
    with show.needs("collect"):
        from eventlake.collect.server import serve as collect
    collect(
        options.collector(source, lake),
        lambda ready: show.answer(ready, as_json, show.listening),
    )


@app.command()
@gathered
def sync(context: typer.Context, source: SourceOptions, run: RunOptions) -> None:
    """Land what a source's archive has got since the last time.

    Options that are not given stay as the source's last load had them.
    """
    changes, suppressed = source.changes(context), run.suppressed()
    from eventlake import api

    with progress(run.quiet) as steps:
        result = api.sync(
            source.source,
            lake=run.lake,
            changes=changes,
            master=run.master,
            suppressed=suppressed,
            temporary_cluster=run.temporary_cluster,
            progress=steps,
        )
    _show_load(result, run)


@app.command()
def tables(lake: LakeRoot = LAKE, as_json: AsJson = False) -> None:
    """Show the tables of a lake."""
    from eventlake.api import open_lake

    show.answer(open_lake(lake).tables(), as_json, show.tables)


@app.command()
def schema(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table, as database.table.")],
    lake: LakeRoot = LAKE,
    as_json: AsJson = False,
) -> None:
    """Show the columns of a table and their types."""
    from eventlake.api import open_lake

    show.answer(open_lake(lake).schema(table), as_json, show.schema)


@app.command()
def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One query over tables named database.table.")
    ],
    lake: LakeRoot = LAKE,
    engine: Annotated[
        Literal["duckdb", "spark"], typer.Option(help="What answers the query.")
    ] = "duckdb",
    form: Annotated[Form, typer.Option("--format", help="How rows are printed.")] = Form.TABLE,
    as_json: AsJson = False,
) -> None:
    """Answer a SQL query over the lake's tables.

    Quote names that begin with a digit: web."2fa_enabled".
    """
    from eventlake.api import open_lake

    found = open_lake(lake).query(sql, engine=engine)
    if as_json:
        show.write(to_json(list(objects_of(found))))
    else:
        show.query_answer(found, form)


@app.command()
def reports(source: Source, lake: LakeRoot = LAKE, as_json: AsJson = False) -> None:
    """Show what each load of a source did."""
    from eventlake.api import open_lake

    show.answer(open_lake(lake).reports(source), as_json, show.reports)


@app.command()
def quarantine(source: Source, lake: LakeRoot = LAKE, as_json: AsJson = False) -> None:
    """Show the lines that were no events."""
    from eventlake.api import open_lake

    show.answer(records(open_lake(lake).quarantine(source)), as_json, show.quarantine)


@app.command()
def verify(
    source: Source, lake: LakeRoot = LAKE, as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Compare the tables with the raw events and with the catalog.

    The raw files are read again by a second implementation. Every event that is missing, extra,
    doubled or in the wrong partition is named, and every table that the catalog lacks or has
    elsewhere; the exit code is 1 then.
    """
    from eventlake.api import open_lake

    found = open_lake(lake).verify(source, None if quiet else show.remark)
    if as_json:
        show.write(to_json({"ok": found.ok, **found.model_dump()}))
    else:
        show.verification(found)
    raise typer.Exit(FINISHED if found.ok else FAILED)


@app.command()
def repair(lake: LakeRoot = LAKE, as_json: AsJson = False) -> None:
    """Make the catalog agree with the ledger.

    Finishes what crashed runs left, registers tables, columns and partitions that the catalog
    lacks, corrects those that point elsewhere, and drops entries of tables that there are not.
    Data files are not touched. The exit code is 1 if something could not be corrected.
    """
    from eventlake.repair import repair as repair_lake

    done = repair_lake(lake)
    show.answer(done, as_json, show.repaired)
    raise typer.Exit(FAILED if any(one.problems for one in done) else FINISHED)


@app.command()
@gathered
def adopt(
    context: typer.Context, source: SourceOptions, lake: LakeRoot = LAKE, as_json: AsJson = False
) -> None:
    """Take over the tables of a lake that Segment filled.

    Paths, schemas and partitions stay as they are. The message ids of the last days are read from
    the tables, and the next sync appends to them.
    """
    from eventlake.adoption import adopt as adopted

    found = adopted(source.source, lake=lake, changes=source.changes(context))
    show.answer(found, as_json, show.adopted)


@app.command()
def check(lake: LakeRoot = LAKE, as_json: AsJson = False) -> None:
    """Try everything that a load will ask of a lake.

    Settings, credentials, each prefix, the catalog: each is used for real, and put back. A lake on
    disk that does not exist is not made. What fails is shown with what to do, and the exit code is
    1.
    """
    from eventlake.checks import check as checked

    found = checked(lake)
    show.answer(found, as_json, show.checks)
    raise typer.Exit(FINISHED if all(one.ok for one in found) else FAILED)


if __name__ == "__main__":
    sys.exit(main())

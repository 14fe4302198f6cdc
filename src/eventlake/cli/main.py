"""The commands, as a thin layer over the Python API.

Modules that are slow to import are imported by the command that needs them, so --help is fast.
"""

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import eventlake as python_api
from eventlake.cli import (
    change,
    control,
    databricks,
    notify,
    people,
    quarantine,
    runs,
    schedule,
    show,
    suppress,
    workspace,
)
from eventlake.cli.compact import compact
from eventlake.cli.failures import FAILED, FINISHED, PARTIAL, run_command
from eventlake.cli.forget import forget
from eventlake.cli.import_settings import import_settings
from eventlake.cli.options import (
    DEFAULT_LAKE,
    AsJson,
    CollectOptions,
    DryRun,
    LakeRoot,
    OptionalSource,
    Quiet,
    RunOptions,
    SampleOptions,
    Source,
    SourceOptions,
    expand_option_groups,
)
from eventlake.cli.progress import show_progress
from eventlake.cli.rows import OutputFormat, iterate_objects, to_json
from eventlake.cli.show_adoption import print_adoption, print_adoption_plan, print_differences
from eventlake.cli.show_plan import print_plan
from eventlake.cli.up import up
from eventlake.errors import AmbiguousTables, InvalidSettings
from eventlake.model.settings import validate_settings
from eventlake.sample.spec import SampleSpec

if TYPE_CHECKING:
    from eventlake.services.load import LoadResult

EXIT_CODES = {"failed": FAILED, "partial": PARTIAL}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Land customer events in a data lake that you own.",
    epilog="Exit codes: 0 finished, 1 failed, 2 usage, 3 partial, 130 interrupted.",
)


app.add_typer(suppress.app, name="suppress")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(databricks.app, name="databricks")
app.command("import-settings")(import_settings)
for name, group in {
    "source": control.source_app,
    "lake": control.lake_app,
    "runs": runs.app,
    "replays": runs.replays_app,
    "erasures": runs.erasures_app,
    "notify": notify.notify_app,
    "token": people.token_app,
    "user": people.user_app,
}.items():
    app.add_typer(group, name=name)
for one in (up, control.connect, schedule.enable, schedule.disable, schedule.schedule):
    app.command()(one)
for one in (control.history, control.health):
    app.command()(one)
for one in (workspace.export, workspace.apply, workspace.recover, workspace.reseal):
    app.command()(one)


def main(arguments: Sequence[str] | None = None, api: Any = python_api) -> int:
    """Run one command and return its exit code; `arguments` defaults to `sys.argv`.

    Commands call the functions of `api`, which has those of the package `eventlake`.
    """
    # Without a handler, py4j would print a stack trace when it is interrupted.
    logging.basicConfig(handlers=[logging.NullHandler()])
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command(lambda: app(words, prog_name="eventlake", obj=api), words)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        show.print_line(f"eventlake {version('eventlake')}")
        raise typer.Exit


@app.callback()
def eventlake(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Land customer events in a data lake that you own."""


@app.command()
@expand_option_groups
def sample(
    options: SampleOptions,
    out: Annotated[str, typer.Option(help="The folder to write into.")] = "raw",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Generate realistic events of a shop.

    Writes gzip files of JSON lines. Equal options give identical files.
    """
    from eventlake.paths import parse_path
    from eventlake.sample.write import make_sample

    spec = validate_settings(SampleSpec, options.values)
    folder, total = parse_path(out, "out"), 0
    with show_progress(quiet) as steps:

        def count_events(events: int) -> None:
            nonlocal total
            total += events
            steps.step("sample", total, spec.events, total)

        summary = make_sample(spec, folder, count_events)
    show.print_result(summary, as_json, show.sample)


@app.command()
@expand_option_groups
def load(
    context: typer.Context,
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
    that were loaded before are skipped; the files themselves are not changed. The content of a
    pipe is stored in the lake's archive first. Options default to the settings of the source's last
    load.
    """
    settings, suppressed = source.values, run.suppressed()
    if run.dry_run:
        plan = context.obj.plan_load(paths, lake=run.lake, settings=settings)
        show.print_result(plan, run.as_json, print_plan)
        return
    with show_progress(run.quiet) as steps:
        result = context.obj.load(
            paths,
            lake=run.lake,
            settings=settings,
            where=run.master,
            keep_raw=keep_raw,
            suppressed=suppressed,
            temporary_cluster=run.temporary_cluster,
            progress=steps,
        )
    _show_load(result, run)


def _show_load(result: "LoadResult", run: RunOptions) -> None:
    show.print_result(result, run.as_json, show.load_summary if run.quiet else show.load_result)
    show.load_warnings(result)
    raise typer.Exit(EXIT_CODES.get(result.status, FINISHED))


@app.command()
@expand_option_groups
def serve(
    source: Annotated[
        list[str], typer.Option(help="A source's slug or id; repeat it for several sources.")
    ],
    options: CollectOptions,
    lake: LakeRoot = DEFAULT_LAKE,
    as_json: AsJson = False,
) -> None:
    """Collect events from Segment's SDKs into the raw archive.

    Serves the Segment tracking API; an event is acknowledged when it is on disk. `eventlake sync`
    lands what has been archived. SIGTERM archives everything and stops.
    """
    with show.require_extra("collect"):
        from eventlake.collect.server import serve as serve_collector
    settings = options.collector_settings(lake)
    serve_collector(
        settings,
        options.served_sources(settings.store, source),
        lambda endpoint: show.print_result(endpoint, as_json, show.endpoint),
    )


@app.command()
@expand_option_groups
def sync(
    context: typer.Context,
    source: OptionalSource,
    run: RunOptions,
    slug: Annotated[
        str,
        typer.Argument(metavar="[SOURCE]", help="A source of the workspace, instead of --source."),
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="With SOURCE: wait for the end of the run.")
    ] = False,
) -> None:
    """Land the files that are new in a source's archive.

    Options default to the settings of the source's last load. With SOURCE, a running `eventlake up`
    syncs the source of its workspace instead, as `eventlake runs start` does, and no other options
    count but --wait and --json.
    """
    if slug:
        runs.start(control.make_options(run.as_json), {"source": slug}, wait=wait)
    if "source" not in source.values:
        raise InvalidSettings("source is not set: give --source, or the source of a workspace")
    changes, suppressed = source.changes, run.suppressed()
    if run.dry_run:
        plan = context.obj.plan_sync(source.source, lake=run.lake, changes=changes)
        show.print_result(plan, run.as_json, print_plan)
        return
    with show_progress(run.quiet) as steps:
        result = context.obj.sync(
            source.source,
            lake=run.lake,
            changes=changes,
            where=run.master,
            suppressed=suppressed,
            temporary_cluster=run.temporary_cluster,
            progress=steps,
        )
    _show_load(result, run)


for command in (change.replay, change.retype, change.drop, forget, compact):
    app.command()(command)


@app.command()
def tables(context: typer.Context, lake: LakeRoot = DEFAULT_LAKE, as_json: AsJson = False) -> None:
    """Show the tables of a lake."""
    show.print_result(context.obj.open_lake(lake).tables(), as_json, show.tables)


@app.command()
def schema(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table, as database.table.")],
    lake: LakeRoot = DEFAULT_LAKE,
    as_json: AsJson = False,
) -> None:
    """Show the columns and types of a table."""
    show.print_result(context.obj.open_lake(lake).schema(table), as_json, show.schema)


@app.command()
def query(
    context: typer.Context,
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One query over tables named database.table.")
    ],
    lake: LakeRoot = DEFAULT_LAKE,
    engine: Annotated[
        Literal["duckdb", "spark"], typer.Option(help="The query engine.")
    ] = "duckdb",
    form: Annotated[
        OutputFormat, typer.Option("--format", help="The output format.")
    ] = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Run a SQL query over the lake's tables.

    Quote names that begin with a digit: web."2fa_enabled".
    """
    result = context.obj.open_lake(lake).query(sql, engine=engine)
    if as_json:
        show.print_line(to_json(list(iterate_objects(result))))
    else:
        show.query_result(result, form)


@app.command()
def reports(
    context: typer.Context, source: Source, lake: LakeRoot = DEFAULT_LAKE, as_json: AsJson = False
) -> None:
    """Show the reports of a source's runs."""
    show.print_result(context.obj.open_lake(lake).reports(source), as_json, show.reports)


@app.command()
def verify(
    context: typer.Context,
    source: Source,
    lake: LakeRoot = DEFAULT_LAKE,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the tables with the raw events and with the catalog.

    The raw files are read again by a second implementation. Shows every event that is missing,
    extra, doubled or in the wrong partition, and every table that the catalog lacks or has at
    another location. The exit code is 1 if there are differences.
    """
    result = context.obj.open_lake(lake).verify(source, None if quiet else show.print_stderr)
    if as_json:
        show.print_line(to_json({"ok": result.ok, **result.model_dump()}))
    else:
        show.verification(result)
    raise typer.Exit(FINISHED if result.ok else FAILED)


@app.command()
def repair(context: typer.Context, lake: LakeRoot = DEFAULT_LAKE, as_json: AsJson = False) -> None:
    """Make the catalog agree with the ledger.

    Finishes or removes crashed runs, registers tables, columns and partitions that the catalog
    lacks, corrects wrong locations, and drops entries of tables that do not exist. Data files are
    not changed. The exit code is 1 if something could not be corrected.
    """
    sources = context.obj.repair(lake)
    show.print_result(sources, as_json, show.repairs)
    raise typer.Exit(FAILED if any(source.problems for source in sources) else FINISHED)


@app.command()
@expand_option_groups
def adopt(
    context: typer.Context,
    source: SourceOptions,
    lake: LakeRoot = DEFAULT_LAKE,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="A table that is not adopted, where several are for the same events; "
            "may be repeated.",
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Adopt the tables of a Segment Data Lake.

    Paths, names, schemas and partitions stay as they are. Database, prefix, naming, date partition
    and folder are worked out from the tables; set an option only where they differ. The message
    ids of the last days are read from the tables, and the next sync appends to them.
    """
    options = {"lake": lake, "changes": source.changes, "leave_out": leave_out or ()}
    try:
        if dry_run:
            plan = context.obj.plan_adoption(source.source, **options)
            show.print_result(plan, as_json, print_adoption_plan)
        else:
            result = context.obj.adopt(source.source, **options)
            show.print_result(result, as_json, print_adoption)
    except AmbiguousTables as problem:
        print_differences(problem.rows)
        raise


@app.command()
def check(context: typer.Context, lake: LakeRoot = DEFAULT_LAKE, as_json: AsJson = False) -> None:
    """Check that a lake can be used.

    Tests settings, credentials, each prefix and the catalog with real requests, and reverts its
    changes. A lake on disk that does not exist is not created. Failures are shown with what to do,
    and the exit code is 1.
    """
    results = context.obj.check(lake)
    show.print_result(results, as_json, show.checks)
    raise typer.Exit(FINISHED if all(result.ok for result in results) else FAILED)


if __name__ == "__main__":
    sys.exit(main())

"""The result as tables in the terminal and as `results.json`."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.folders import RESULTS, without_paths
from bench.rows import Row
from bench.targets import GIGABYTE, TARGETS, Rows, Target, times

STYLES = {"reached": "green", "missed": "red", "not measured": "dim"}


def show(console: Console, rows: Rows) -> None:
    console.print(_rows_table(rows))
    console.print(_targets_table(rows))
    for row in rows.values():
        if row.error:
            console.print(f"[red]{row.label} failed:[/] ", end="")
            console.print(row.error, markup=False)


def write(rows: Rows, events: int, repeat: int) -> None:
    """Every figure, and what it was taken on."""
    result = {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "events": events,
        "repeat": repeat,
        "rows": {name: _row_json(row, rows) for name, row in rows.items()},
        "targets": [_target_json(target, rows) for target in TARGETS],
    }
    RESULTS.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def _rows_table(rows: Rows) -> Table:
    table = Table(
        title="Seconds after the tool is up", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    table.add_column("tool", no_wrap=True)
    for name in ("events", "start-up", "seconds", "events/s", "to load", "peak GB"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows.values():
        table.add_row(row.label, *_cells(row, rows))
    return table


def _cells(row: Row, rows: Rows) -> tuple[str, ...]:
    if row.error:
        return (f"{row.events.lines:,}", "", "failed", "", "", "")
    return (
        f"{row.events.lines:,}",
        _number(row.start_up, ".1f"),
        _number(row.seconds, ".1f"),
        _number(row.rate, ",.0f"),
        _number(times(rows, row.name), ".2f"),
        _number(row.peak and row.peak / GIGABYTE, ".2f"),
    )


def _targets_table(rows: Rows) -> Table:
    table = Table(
        title="Targets, for 1,000,000 events on 2 cores",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("target", no_wrap=True)
    for name in ("must be", "is", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for target in TARGETS:
        verdict = target.verdict(rows)
        got = f"{_number(target.figure(rows), '.2f')} {target.unit}"
        table.add_row(target.name, target.bound, got, verdict, style=STYLES[verdict])
    return table


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _row_json(row: Row, rows: Rows) -> dict[str, Any]:
    events = row.events
    return {
        "label": row.label,
        "workload": {
            "name": events.name,
            "lines": events.lines,
            "distinct": events.distinct,
            "files": len(events.files),
            "bytes": events.bytes,
            "json_bytes": events.json_bytes,
            "scale": events.scale,
        },
        "seconds": row.seconds,
        "start_up": row.start_up,
        "wall": row.wall,
        "events_per_second": row.rate,
        "seconds_to_eventlake": times(rows, row.name),
        "peak_bytes": row.peak,
        "runs": [asdict(run) for run in row.runs],
        "error": without_paths(row.error) or None,
    }


def _target_json(target: Target, rows: Rows) -> dict[str, Any]:
    return {
        "target": target.name,
        "bound": target.bound,
        "unit": target.unit,
        "figure": target.figure(rows),
        "verdict": target.verdict(rows),
    }

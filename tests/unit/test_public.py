"""What EventLake exports, and what an import of it costs."""

import subprocess
import sys

import pytest

import eventlake

HEAVY = ("pyspark", "pyarrow", "duckdb", "pandas", "numpy", "obstore", "pydantic")


def test_what_is_public() -> None:
    assert eventlake.__all__ == [
        "EventLakeError",
        "Lake",
        "LoadResult",
        "RedriveRequest",
        "ReplayRequest",
        "SourceSettings",
        "adopt",
        "check",
        "compact",
        "drop",
        "forget",
        "import_settings",
        "list_suppressed_users",
        "load",
        "open_lake",
        "plan_adoption",
        "plan_compaction",
        "plan_drop",
        "plan_forget",
        "plan_load",
        "plan_redrive",
        "plan_replay",
        "plan_retype",
        "plan_sync",
        "redrive",
        "repair",
        "replay",
        "retype",
        "retype_request",
        "source_settings",
        "suppress_users",
        "sync",
        "unsuppress_users",
    ]


@pytest.mark.parametrize("name", eventlake.__all__)
def test_what_is_public_is_there(name: str) -> None:
    assert getattr(eventlake, name).__name__ == name


def test_what_is_not_public_is_not() -> None:
    with pytest.raises(AttributeError, match="module 'eventlake' has no attribute 'nope'"):
        _ = eventlake.nope


def test_an_import_loads_nothing_heavy() -> None:
    code = "import eventlake, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint(HEAVY)

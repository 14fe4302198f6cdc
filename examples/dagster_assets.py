"""The tables of a source as a Dagster asset: to materialize it is to sync the source.

Set EVENTLAKE_URL and EVENTLAKE_TOKEN (scope write), and have the source only synced on request:
`eventlake schedule web --manual`.
"""

from typing import Any

import dagster as dg

from eventlake.client import Client


def sync_source(source: str, key: str) -> dict[str, Any]:
    """Sync a source and return what to show of the run; raises RunFailed if it failed."""
    with Client() as client:
        run = client.sync(source, key=key)
    shown = ("id", "state", "lake_run", "started_at", "ended_at")
    return {name: run[name] for name in shown}


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=2, delay=60))
def web_events(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """The tables of the source `web`."""
    # A step that is tried again finds the run of the first try, unless that has failed.
    return dg.MaterializeResult(metadata=sync_source("web", key=context.run_id))


defs = dg.Definitions(assets=[web_events])

"""How many requests a small sync makes, and that tables with nothing new make none."""

import gzip
import json
from collections import Counter
from pathlib import Path

from eventlake.lakes import open_store
from eventlake.model.settings import source_settings
from tests import lakes
from tests.aws.proxy import Proxy
from tests.pipeline.test_replay import event, write

MOST_S3_REQUESTS = 40
FEW_TABLES, MANY_TABLES = 5, 60


def count_requests(proxy: Proxy, folder: Path, tables: int) -> Counter[str]:
    """The requests, by service and action, of a sync with an event for one of `tables` tables."""
    lake, source = proxy.here.settings(), f"web{tables}"
    events = [event(n, 0, event=f"Event {n}", properties={"n": n}) for n in range(tables)]
    first = write(folder / f"{tables}.gz", events)
    lakes.load([first], lake, settings=source_settings(source=source), keep_raw=True)
    day = next(iter(open_store(lake).objects(f"segment-logs/{source}"))).path.rpartition("/")[0]
    for number in (100, 101):
        new = event(number, 1, event="Event 0", properties={"n": number})
        content = gzip.compress(json.dumps(new).encode())
        open_store(lake).write(f"{day}/{number}.gz", content)
        proxy.calls.clear()
        result = lakes.sync(lake, source)
        assert (result.status, result.counts.landed) == ("finished", 1)
        assert [table.table.name for table in result.tables] == ["event_0"]
    return Counter(f"{call.service} {call.action}" for call in proxy.calls)


def test_a_sync_makes_few_requests_however_many_tables_there_are(
    proxy: Proxy, tmp_path: Path
) -> None:
    few = count_requests(proxy, tmp_path, FEW_TABLES)
    proxy.upstream.reset()
    proxy.upstream.make_bucket()
    many = count_requests(proxy, tmp_path, MANY_TABLES)
    assert few == many
    s3 = sum(count for name, count in few.items() if name.startswith("s3 "))
    assert s3 <= MOST_S3_REQUESTS, few

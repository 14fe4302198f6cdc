"""Spark's Python worker daemon, which imports what tasks need before it forks workers."""

import gc

from pyspark import daemon

import eventlake.pipeline.compact
import eventlake.pipeline.dedupe
import eventlake.pipeline.read
import eventlake.pipeline.write  # noqa: F401 - imported for the workers
from eventlake.runners.worker_lock import hold_lock

if __name__ == "__main__":
    lock = hold_lock()
    # Workers run a full gc after every task: keep these modules out of it.
    gc.freeze()
    daemon.manager()

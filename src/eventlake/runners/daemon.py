"""Spark's daemon of Python workers, with what the tasks need imported before it forks them."""

import gc

from pyspark import daemon

import eventlake.pipeline.dedupe
import eventlake.pipeline.read
import eventlake.pipeline.write  # noqa: F401 - workers find these ready

if __name__ == "__main__":
    # After every task Spark has a worker look through all its objects for cycles.
    gc.freeze()
    daemon.manager()

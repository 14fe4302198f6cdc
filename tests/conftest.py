"""How xdist shares the tests out: by file, but files that need the same slow server together."""

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "tests/aws/test_migrate.py": "Trino",
    "tests/aws/test_trino.py": "Trino",
    "tests/azure/test_adopt.py": "Hive metastores",
    "tests/azure/test_corrections.py": "Hive metastores",
    "tests/azure/test_delta.py": "Hive metastores",
    "tests/azure/test_lake.py": "Hive metastores",
    "tests/azure/test_metastore.py": "Hive metastores",
    "tests/azure/test_throttled.py": "Hive metastores",
    "tests/databricks/test_lake.py": "Delta on Spark",
    "tests/databricks/test_unity.py": "Delta on Spark",
    "tests/delta/test_engines.py": "Delta on Spark",
    "tests/pages/test_actions.py": "a browser",
    "tests/pages/test_first_steps.py": "a browser",
    "tests/pages/test_reading.py": "a browser",
}


class ByServer(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return TOGETHER.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByServer:
    return ByServer(config, log)

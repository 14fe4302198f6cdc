"""The process in which statements are executed, and statements as the API shows them."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.azure.metastores import HADOOP_AZURE, downloaded
from tests.delta_env import spark_with_delta
from tests.processes import end_session

SCRIPT = Path(__file__).parent / "sql_engine.py"


@dataclass
class Engine:
    """A Spark with Delta, started by the first statement."""

    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    process: "subprocess.Popen[str] | None" = None

    def ask(self, **asked: Any) -> dict[str, Any]:
        with self.lock:
            process = self.process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer

    def _start(self) -> "subprocess.Popen[str]":
        spark = spark_with_delta()
        jars = (*spark.jars, *downloaded(*HADOOP_AZURE))
        kept = {n: os.environ[n] for n in ("JAVA_HOME", "PATH", "LANG") if n in os.environ}
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(self.folder), ",".join(map(str, jars))],
                env={**kept, "PYTHONPATH": str(spark.packages), "SPARK_LOCAL_IP": "127.0.0.1"},
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) != "ready\n":
            assert line, (self.folder / "log").read_text()[-4000:]
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            end_session(self.process.pid, grace=0.0)


@contextmanager
def made_engine() -> Iterator[Engine]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        engine = Engine(Path(folder))
        try:
            yield engine
        finally:
            engine.stop()

"""Fuzzing: valid and invalid requests generated from the OpenAPI description.

The edges of every field, and some requests by chance; `make abuse` has many more of those.
"""

import os
import subprocess
import sys
from pathlib import Path

import httpx

from tests.collect.servers import KEY, serving

SECONDS = os.environ.get("EVENTLAKE_ABUSE_SECONDS")
LIMITS = ["--max-examples", "1000", "--max-time", SECONDS] if SECONDS else ["--max-examples", "1"]


def test_no_request_is_a_server_error(tmp_path: Path) -> None:
    with serving(tmp_path / "lake") as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
        repeatable = ["--generation-deterministic", "--no-color"]
        checks = ["--checks", "not_a_server_error", "--phases", "coverage,fuzzing"]
        fuzz = subprocess.run(
            [*command, *LIMITS, *repeatable, *checks, "--mode", "all", "--auth", f"{KEY}:x"],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=240 + float(SECONDS or 0),
        )
        assert fuzz.returncode == 0, fuzz.stdout
        counts = server.metrics()
        assert server.process.poll() is None
        assert httpx.get(f"{server.url}/health").status_code == 200
    statuses = {name for name in counts if name.startswith("responses_total")}
    assert {f'responses_total{{status="{code}"}}' for code in (200, 400, 405)} <= statuses
    assert not [name for name in statuses if 'status="5' in name]
    assert counts["accepted_total"] > 0

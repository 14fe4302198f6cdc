"""Fuzzing the API: valid and invalid requests generated from its OpenAPI description.

The edges of every field, and some requests by chance; `make abuse` has many more of those.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.servers import serving

SECONDS = os.environ.get("EVENTLAKE_ABUSE_SECONDS")
LIMITS = ["--max-examples", "1000", "--max-time", SECONDS] if SECONDS else ["--max-examples", "5"]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def test_no_request_is_a_server_error(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(url) as api:
        api.context.trusted = "fuzz"  # it removes tokens and users that it finds
        lake = {"slug": "0", "kind": "local", "settings": {"path": str(tmp_path / "lake")}}
        api.post("/lakes", lake)
        api.post("/sources", {"slug": "0", "lake": "0"})
        api.post("/runs", {"source": "0"})
        location = f"{api.url}/api/v1/openapi.json"
        command = [sys.executable, "-m", "schemathesis.cli", "run", location, *LIMITS]
        options = ["--generation-deterministic", "--no-color", "--checks", ",".join(CHECKS)]
        phases = ["--phases", "coverage,fuzzing", "--mode", "all"]
        fuzz = subprocess.run(
            [*command, *options, *phases],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=400 + float(SECONDS or 0),
        )
        assert fuzz.returncode == 0, fuzz.stdout
        changed = {entry["action"] for entry in api.get("/audit?limit=500")["items"]}
        assert {"source.add", "lake.add", "token.add", "run.cancel"} <= changed
    assert "Traceback" not in capfd.readouterr().err

"""Fuzzing the API: valid and invalid requests generated from its OpenAPI description.

The edges of every field on both databases, and some requests by chance on one of them; `make abuse`
has many more of those, on both.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from eventlake.control.people_tables import audit
from tests.server.servers import serving

SECONDS = os.environ.get("EVENTLAKE_ABUSE_SECONDS")
LIMITS = ["--max-examples", "1000", "--max-time", SECONDS] if SECONDS else ["--max-examples", "3"]
REQUEST_SECONDS = 120
"""Some routes start a process that imports Arrow; on a busy machine that took over 10 seconds."""
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
        by_chance = bool(SECONDS) or "://" not in url
        phases = ["--phases", "coverage,fuzzing" if by_chance else "coverage", "--mode", "all"]
        patience = ["--request-timeout", str(REQUEST_SECONDS)]
        fuzz = subprocess.run(
            [*command, *options, *phases, *patience],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=900 + float(SECONDS or 0),
        )
        assert fuzz.returncode == 0, fuzz.stdout
        with api.context.database.read() as session:
            changed = set(session.execute(sa.select(audit.c.action)).scalars())
        by_edges = {"source.add", "lake.add", "run.cancel"}
        assert by_edges | ({"token.add"} if by_chance else set()) <= changed
    assert "Traceback" not in capfd.readouterr().err

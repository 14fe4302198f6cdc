"""The files with which a server is deployed: what can be checked without Docker."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml

from eventlake.cli.main import app
from eventlake.control.database import migrate, open_database
from eventlake.server.context import Address
from tests.server.servers import serving

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy/docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
UNIT = ROOT / "deploy/systemd/eventlake.service"
EXTRAS = re.search(r"'\.\[([\w,]+)\]'", DOCKERFILE)


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [
        " ".join(line.split()[1:]) for line in joined.splitlines() if line.startswith(f"{name} ")
    ]


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    sources = [
        word
        for line in instructions("COPY")
        if not line.startswith("--from")
        for word in line.split()[:-1]
    ]
    assert {"src", "pyproject.toml", "constraints.txt"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


def test_the_image_has_all_extras_of_a_server() -> None:
    import tomllib

    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert EXTRAS
    assert set(EXTRAS[1].split(",")) == known.keys() - {"bench", "client", "dev"}


@pytest.mark.parametrize(
    "arguments", [instructions("CMD")[-1], COMPOSE["services"]["eventlake"]["command"]]
)
def test_the_commands_exist(arguments: Any) -> None:
    words = yaml.safe_load(arguments) if isinstance(arguments, str) else arguments
    command = typer.main.get_command(app)
    known = {name for one in command.commands[words[0]].params for name in one.opts}  # type: ignore[attr-defined]
    assert {word for word in words if word.startswith("--")} <= known


def test_the_health_checks_ask_a_path_that_answers(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "eventlake.db"))
    migrate(database)
    database.close()
    checks = [
        yaml.safe_load(instructions("HEALTHCHECK")[0].partition("CMD ")[2]),
        COMPOSE["services"]["eventlake"]["healthcheck"]["test"][1:],
    ]
    public = Address("0.0.0.0", "https://lake.example.com")
    with serving(str(tmp_path / "eventlake.db"), address=public) as api:
        assert httpx.get(f"{api.url}/ready").status_code == 200
        for words in checks:
            assert words[0] == "python"
            code = words[2].replace("http://127.0.0.1:8400", api.url)
            subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
            broken = code.replace("/ready", "/missing")
            assert subprocess.run(
                [sys.executable, "-c", broken], capture_output=True, check=False
            ).returncode


def test_the_services_of_compose_fit_together() -> None:
    services = COMPOSE["services"]
    server, postgres = services["eventlake"], services["postgres"]
    assert (DOCKER / server["build"]["context"]).resolve() == ROOT
    assert (ROOT / server["build"]["dockerfile"]).exists()
    assert server["depends_on"]["postgres"]["condition"] == "service_healthy"
    user = postgres["environment"]["POSTGRES_USER"]
    name = postgres["environment"]["POSTGRES_DB"]
    url = server["environment"]["EVENTLAKE_DATABASE"]
    assert url.startswith(f"postgresql://{user}:")
    assert url.endswith(f"@postgres/{name}")
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    named = {volume.partition(":")[0] for one in services.values() for volume in one["volumes"]}
    assert named == set(COMPOSE["volumes"])
    wanted = set(re.findall(r"\$\{(\w+):?[?-]", (DOCKER / "compose.yaml").read_text()))
    given = set(re.findall(r"^(\w+)=", (DOCKER / "env.example").read_text(), re.MULTILINE))
    assert wanted == given


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text()
    assert "ExecStart=/opt/eventlake/bin/eventlake up\n" in text
    program = str(Path(sys.executable).parent / "eventlake")
    unit = tmp_path / "eventlake.service"
    unit.write_text(text.replace("/opt/eventlake/bin/eventlake", program))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")

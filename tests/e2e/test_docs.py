"""The documents are true: the tutorial runs as it is shown, and what they name is there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from eventlake.cli.reference import list_commands
from eventlake.errors import EventLakeError
from eventlake.lakes.kinds import KINDS, settings_model
from eventlake.model.settings import SourceSettings
from tests.processes import PATIENCE, SHORT_LIVED

ROOT = Path(__file__).parents[2]
README, TUTORIAL = ROOT / "README.md", ROOT / "docs/tutorial.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OWN = [page for page in PAGES if page.name not in ("cli.md", "settings.md", "api.md")]
"""The pages that nobody generates."""


class Shown(NamedTuple):
    """A command, and what a page shows below it."""

    command: str
    lines: list[str]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def shown(page: Path) -> list[Shown]:
    """The commands of a page's console blocks, in order."""
    steps: list[Shown] = []
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            steps.append(Shown(line[2:], []))
        else:
            steps[-1].lines.append(line)
    return steps


# The tutorial runs

_VARIES = {
    r"\b\d{19}\b": "<run>",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b": "<time>",
    r"\b\d+\.\d+ s\b": "<seconds>",
    r"\b\d+(\.\d+)? [kMGT]?B\b": "<size>",
    "─+": "─",
    r"\s+": " ",
}


def normal(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, name in _VARIES.items():
        line = re.sub(pattern, name, line)
    return line.strip()


def missing(wanted: list[str], output: str) -> str | None:
    """The first line that does not come, in its turn, in an output; `…` stands for anything."""
    lines = iter([normal(line) for line in output.splitlines()])
    for line in filter(None, map(normal, wanted)):
        pattern = ".*".join(map(re.escape, line.split("…")))
        if line != "…" and not any(re.fullmatch(pattern, one) for one in lines):
            return line
    return None


def run(arguments: list[str], folder: Path) -> str:
    """What a command prints; it must succeed."""
    binaries = str(Path(sys.executable).parent)
    path = os.pathsep.join([binaries, os.environ.get("PATH", "")])
    ended = subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, **SHORT_LIVED, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, f"{arguments[-1]}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.mark.spark
@pytest.mark.usefixtures("no_java")
def test_the_tutorial_runs_as_it_is_shown(tmp_path: Path) -> None:
    steps = shown(TUTORIAL)
    assert {"sample", "load", "query", "verify"} <= {verb(step.command) for step in steps}
    for step in steps:
        output = run(["sh", "-c", step.command], tmp_path)
        line = missing(step.lines, output)
        assert line is None, f"{step.command}\ndoes not print\n{line}\nbut\n{output}"
    for page in (TUTORIAL, README):
        [code] = blocks(page, "python")
        assert run([sys.executable, "-c", code], tmp_path).split() == ["nothing", "476"]


def test_lines_that_are_not_printed_are_found() -> None:
    output = "\n table   rows \n ──── \n web.a      12   3.4 kB\nfinished in 1.5 s\n"
    assert missing(["table rows", "──", "…", "finished in 27.0 s"], output) is None
    assert missing(["web.… 12 9 MB"], output) is None
    assert missing(["web.a 13 …"], output) == "web.a 13 …"
    assert missing(["finished in 1.5 s", "table rows"], output) == "table rows"


# What pages name is there


def verb(command: str) -> str:
    """`load`, of `eventlake load raw --source web`."""
    words = shlex.split(command)
    return words[1] if words[0] == "eventlake" else ""


OPTIONS = {
    verb: {name for option in command.params for name in option.opts} | {"--help"}
    for verb, command in list_commands().items()
}


def called(page: Path) -> Iterator[list[str]]:
    """Every call of the command in the blocks of a page."""
    indented = re.findall(r"^    (?:\w+=\S+ )?(eventlake .*)$", page.read_text(), re.MULTILINE)
    for line in (*(step.command for step in shown(page)), *indented):
        if line.startswith("eventlake "):
            yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", [README, TUTORIAL, ROOT / "docs/operations.md"])
def test_commands_and_options_exist(page: Path) -> None:
    calls = list(called(page))
    assert calls
    for words in calls:
        name = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in OPTIONS), "")
        assert name, words
        given = {word for word in words if word.startswith("--")}
        assert given <= OPTIONS[name], f"eventlake {name}: {given - OPTIONS[name]}"


def test_make_knows_every_word() -> None:
    makefile = (ROOT / "Makefile").read_text()
    words = {
        word for page in OWN for word in re.findall(r"(?:`|^    )make (\w+)", page.read_text())
    }
    assert "make test" in README.read_text()
    assert words - set(re.findall(r"^(\w+):", makefile, re.MULTILINE)) == set()


def errors(root: type[EventLakeError] = EventLakeError) -> Iterator[str]:
    yield root.code
    for below in root.__subclasses__():
        yield from errors(below)


def reasons() -> set[str]:
    """Every reason of the quarantine, as `verify` knows them."""
    source = (ROOT / "src/eventlake/verify/events.py").read_text()
    return set(re.findall(r'InvalidLineError\("(\w+)"\)', source))


def test_pages_name_everything_there_is() -> None:
    written = "\n".join(page.read_text() for page in OWN if page.parent.name == "docs")
    every = written + "".join(
        (ROOT / f"docs/{name}.md").read_text() for name in ("cli", "settings")
    )
    assert len(reasons()) == 9
    assert {word for word in (*errors(), *reasons()) if f"`{word}`" not in written} == set()
    settings = {
        name for own in (SourceSettings, *map(settings_model, KINDS)) for name in own.model_fields
    }
    assert {name for name in settings if f"`{name}`" not in every} == set()
    assert {name for name in OPTIONS if f"eventlake {name}" not in every} == set()


@pytest.mark.parametrize("page", OWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """A page's headings, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_architecture_names_files_that_exist() -> None:
    pages = [ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/decisions/*.md")]
    named = {name for page in pages for name in re.findall(r"[\w/]+\.py\b", page.read_text())}
    homes = (ROOT, ROOT / "src/eventlake")
    assert {name for name in named if not any((home / name).exists() for home in homes)} == set()

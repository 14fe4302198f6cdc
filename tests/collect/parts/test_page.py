"""docs/collect.md names every code, reason, path and metric there is."""

import json
import re
from pathlib import Path

from eventlake.cli.reference import list_commands
from eventlake.collect.app import BATCH_PATHS, CALLS_BY_PATH, SDK_METRICS_PATH
from eventlake.collect.metrics import GAUGES, PREFIX, Metrics, SourceCounts
from eventlake.collect.openapi import DESCRIPTION

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/collect.md").read_text()
SOURCE = "".join(file.read_text() for file in sorted((ROOT / "src/eventlake/collect").glob("*.py")))


def test_every_code_and_reason_is_explained() -> None:
    codes = set(re.findall(r'Refusal\(4\d\d, "(\w+)"', SOURCE)) - {"not_found", "not_base64"}
    codes -= {"method_not_allowed", "too_many_requests"}
    reasons = set(re.findall(r'"(\w+_(?:not_\w+|too_\w+|required|anon_id))"', SOURCE))
    assert len(codes) >= 10
    assert len(reasons) >= 12
    expected = codes | reasons - {"method_not_allowed"}
    assert {word for word in expected if f"`{word}`" not in PAGE} == set()


def test_every_path_is_described_and_answered() -> None:
    described = json.loads(DESCRIPTION)["paths"].keys()
    assert {*CALLS_BY_PATH, *BATCH_PATHS, SDK_METRICS_PATH} == {
        path for path in described if path.startswith("/v1/") and "pixel" not in path
    }


def test_every_metric_is_named() -> None:
    text = Metrics().render({"web": (SourceCounts(), dict.fromkeys(GAUGES, 0.0))})
    names = re.findall(rf"# TYPE {PREFIX}(\w+)", text)
    assert len(names) == 10
    assert [name for name in names if not re.search(rf"{name}\b", PAGE)] == []


def test_the_options_it_names_are_there() -> None:
    commands = list_commands()
    options = {name for option in commands["serve"].params for name in option.opts}
    named = set(re.findall(r"--[a-z][a-z-]+", PAGE))
    assert named <= options

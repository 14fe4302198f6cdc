"""Translate the settings of a Segment Data Lakes destination into those of EventLake."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from eventlake.errors import InvalidSettings
from eventlake.lakes import choose_model, lake_settings
from eventlake.model.settings import (
    SEGMENT_NAMES,
    SourceSettings,
    source_settings,
    translate_names,
)
from eventlake.model.values import FrozenModel

UNKNOWN_SOURCE = "my-source"
"""The slug in commands if the export does not have it."""


class ImportedSettings(FrozenModel):
    """The settings of an export, under our names. It has no secrets."""

    lake: dict[str, Any]
    source: dict[str, Any] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    """The secrets in the export, and the environment variable to put each into."""
    unknown: tuple[str, ...] = ()
    """Names in the export that EventLake has no setting for."""


def import_settings(path: str | Path) -> ImportedSettings:
    """Translate a JSON file of Segment's settings.

    It may be an object of settings, or the answer of Segment's Public API or Config API for a
    destination. Raises `InvalidSettings` if it is something else or has a wrong value.
    """
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as problem:
        raise InvalidSettings(f"cannot read {path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidSettings(f"{path} is not valid JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise InvalidSettings(f"{path} has no settings: it should be a JSON object")
    try:
        return _translate(_find_settings(document))
    except InvalidSettings as problem:
        raise InvalidSettings(f"{path}: {problem}") from problem


def _find_settings(document: dict[str, Any]) -> dict[str, Any]:
    """The settings in an export that are set, with the source and the workspace if it has them."""
    for wrapper in ("data", "destination"):
        if isinstance(document.get(wrapper), dict):
            document = document[wrapper]
    settings = document
    if isinstance(document.get("settings"), dict):  # the Public API
        settings = {"sourceId": document.get("sourceId"), **document["settings"]}
    elif isinstance(document.get("config"), list):  # the Config API
        # The name is workspaces/<slug>/sources/<slug>/destinations/data-lakes.
        words = str(document.get("name", "")).split("/")
        settings = {"source": words[3]} if words[2:3] == ["sources"] and words[3:] else {}
        for one in document["config"]:
            settings[str(one.get("name", "")).rpartition("/")[2]] = one.get("value")
    return {name: value for name, value in settings.items() if value not in (None, "")}


def _translate(settings: Mapping[str, Any]) -> ImportedSettings:
    model = choose_model(settings)
    lake: dict[str, Any] = {}
    source: dict[str, Any] = {}
    secrets, unknown = {}, []
    for name, value in settings.items():
        (of_lake,) = translate_names({name: value}, model.segment_names)
        (of_source,) = translate_names({name: value}, SEGMENT_NAMES)
        if of_lake in model.secrets:
            secrets[of_lake] = model.secrets[of_lake]
        elif of_lake in model.model_fields:
            lake[of_lake] = value
        elif of_source in SourceSettings.model_fields:
            source[of_source] = value
        elif of_lake != "kind":
            unknown.append(name)
    checked = source_settings(**{"source": UNKNOWN_SOURCE, **source}).model_dump(mode="json")
    return ImportedSettings(
        lake={"kind": model.kind, **lake_settings(lake).model_dump(mode="json", include=set(lake))},
        source={name: checked[name] for name in source},
        secrets=secrets,
        unknown=tuple(unknown),
    )

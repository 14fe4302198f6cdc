"""Which Delta tables can be written: those without features that an append would violate."""

from collections.abc import Iterator

from deltalake import DeltaTable

from eventlake.errors import InvalidSettings

KNOWN_FEATURES = frozenset(("appendOnly", "changeDataFeed", "invariants", "v2Checkpoint"))
"""Features of tables that can be written; what some of them need is checked apart.

Deletion vectors are not among them: a file with one could not be replaced.
"""


def check_features(name: str, table: DeltaTable) -> None:
    """Raise InvalidSettings if a feature is switched on that EventLake cannot write."""
    features = sorted(set(_find_unknown(table)))
    if features:
        raise InvalidSettings(
            f"the Delta table {name} has {', '.join(features)}, with which EventLake cannot write "
            "it: switch it off (in Spark: ALTER TABLE … DROP FEATURE, or SET TBLPROPERTIES), or "
            f"rebuild the table: `eventlake drop`, then `eventlake replay`; or add {name} "
            "to skip_events; nothing was landed"
        )


def _find_unknown(table: DeltaTable) -> Iterator[str]:
    protocol, configuration = table.protocol(), table.metadata().configuration
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    yield from (f"the feature {one}" for one in listed - KNOWN_FEATURES)
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        yield "column mapping (delta.columnMapping.mode)"
    if configuration.get("delta.appendOnly", "false").lower() == "true":
        yield "delta.appendOnly"
    if configuration.get("delta.enableDeletionVectors", "false").lower() == "true":
        yield "deletion vectors (delta.enableDeletionVectors)"
    yield from (key for key in configuration if key.startswith("delta.constraints."))
    for field in table.schema().fields:
        yield from (f"{key} of {field.name}" for key in field.metadata if key.startswith("delta."))

"""Corrections of quarantined lines: fields that are set in all of them, or lines one by one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from eventlake.errors import InvalidSettings
from eventlake.kernels.route import InvalidLine, validate_line
from eventlake.model.quarantine import DAMAGED_FILE, SETTABLE, split_field

MAX_EXAMPLES = 5
"""Lines that an error lists."""


LineKey = tuple[str, str, int]
"""Run, file and line number, which identify a quarantined line."""


class QuarantinedLine(NamedTuple):
    """A row of the quarantine."""

    reason: str
    detail: str
    raw: bytes
    file: str
    line: int
    run_id: str

    @property
    def key(self) -> LineKey:
        return self.run_id, self.file, self.line


class Correction(Protocol):
    """Corrects quarantined lines."""

    def correct(self, row: QuarantinedLine) -> bytes | None:
        """The corrected line; None if the row stays in the quarantine as it is."""


@dataclass(frozen=True)
class NoCorrection:
    """Takes lines as they are, if they are valid by the rules of today."""

    def correct(self, row: QuarantinedLine) -> bytes | None:
        try:
            validate_line(row.raw)
        except InvalidLine:
            return None
        return row.raw


@dataclass(frozen=True)
class SetFields:
    """Sets fields of all lines that are JSON objects."""

    values: Mapping[tuple[str, ...], msgspec.Raw]
    """By path of keys, the JSON of the value."""

    def correct(self, row: QuarantinedLine) -> bytes | None:
        if row.reason not in SETTABLE:
            return None
        try:
            line = msgspec.Raw(row.raw)
            for path, value in self.values.items():
                line = _set_field(line, path, value)
        except msgspec.MsgspecError:  # a field on the path is not an object
            return None
        corrected = bytes(line)
        return corrected if corrected != row.raw else NoCorrection().correct(row)


_NULL, _EMPTY = msgspec.Raw(b"null"), msgspec.Raw(b"{}")


def _set_field(text: msgspec.Raw, path: tuple[str, ...], value: msgspec.Raw) -> msgspec.Raw:
    """Return the JSON object `text` with a field set; other values keep their digits."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    key, *below = path
    if below:
        parent = fields.get(key, _NULL)
        value = _set_field(_EMPTY if parent == _NULL else parent, tuple(below), value)
    fields[key] = value
    return msgspec.Raw(msgspec.json.encode(fields))


def parse_fields(words: Iterable[str]) -> SetFields:
    """Parse `field=value`, the field a path with dots and the value JSON or else a string.

    Raises `InvalidSettings`.
    """
    fields = map(split_field, words)
    return SetFields({path: _parse_value(text) for path, text in fields})


def _parse_value(text: str) -> msgspec.Raw:
    """The JSON of a value: the text itself if it is JSON, else the text as a string."""
    try:
        msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return msgspec.Raw(msgspec.json.encode(text))
    return msgspec.Raw(text.strip().replace("\n", " ").encode())


class _CorrectedLine(msgspec.Struct):
    run_id: str
    file: str
    line: int
    raw: str


@dataclass
class CorrectedLines:
    """Replaces lines by others of a file; lines that the file does not change stay as they are."""

    lines: Mapping[LineKey, str]
    found: set[LineKey] = field(default_factory=set)
    """The lines that were in the quarantine, also if another run has redriven them since."""

    def correct(self, row: QuarantinedLine) -> bytes | None:
        text = self.lines.get(row.key)
        if text is None:
            return None
        self.found.add(row.key)
        # The quarantine is printed with invalid UTF-8 escaped.
        is_changed = text != row.raw.decode(errors="backslashreplace")
        if not is_changed or row.reason == DAMAGED_FILE:  # the latter is no line
            return None
        if "\n" in text or not text.strip(" \t\r"):
            raise InvalidSettings(
                f"the corrected line {row.line} of {row.file}, run {row.run_id}: raw must be one "
                "line that is not blank"
            )
        return text.encode()

    def check_found(self, name: str) -> None:
        """Raise `InvalidSettings` if a line is not in the quarantine."""
        unknown = [key for key in self.lines if key not in self.found]
        if unknown:
            listed = "; ".join(
                f"line {line} of {file}, run {run}" for run, file, line in unknown[:MAX_EXAMPLES]
            )
            raise InvalidSettings(
                f"{name}: {len(unknown):,} lines are not in the quarantine: {listed}; export it "
                "again with `eventlake quarantine --json`: lines that were redriven have left it"
            )


def parse_corrected_lines(data: bytes, name: str) -> CorrectedLines:
    """Parse what `eventlake quarantine --json` prints, or the same as one object a line.

    `name` is that of the file, for errors. Raises `InvalidSettings`.
    """
    try:
        is_array = data.lstrip().startswith(b"[")
        rows = (
            msgspec.json.decode(data, type=list[_CorrectedLine])
            if is_array
            else msgspec.json.Decoder(_CorrectedLine).decode_lines(data)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise InvalidSettings(
            f"{name}: {problem}; it must have the objects that `eventlake quarantine --json` "
            "prints, with run_id, file, line and the corrected raw"
        ) from problem
    lines: dict[LineKey, str] = {}
    for row in rows:
        key = row.run_id, row.file, row.line
        if key in lines:
            raise InvalidSettings(
                f"{name}: line {row.line} of {row.file}, run {row.run_id} is there twice"
            )
        lines[key] = row.raw
    if not lines:
        raise InvalidSettings(f"{name} has no lines")
    return CorrectedLines(lines)

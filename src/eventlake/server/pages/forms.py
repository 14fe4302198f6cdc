"""Fields of forms, made from the pydantic models of settings: help, pattern, limits, choices."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel


class Field(NamedTuple):
    """An input of a form."""

    name: str
    kind: str
    """`string`, `integer`, `boolean` or `array`."""
    help: str
    value: str
    default: str
    required: bool
    choices: tuple[str, ...] = ()
    pattern: str = ""
    minimum: int | None = None
    maximum: int | None = None
    placeholder: str = ""
    is_secret: bool = False
    fixed: str = ""
    """Why it may not change any more."""


def list_fields(
    model: type[BaseModel],
    values: Mapping[str, Any],
    *,
    leave_out: Iterable[str] = (),
    fixed: Mapping[str, str] | None = None,
) -> list[Field]:
    """The fields of a model in its order, with the values that were entered."""
    schema = model.model_json_schema()
    required = schema.get("required", ())
    skipped = set(leave_out)
    return [
        _make_field(
            name,
            {**_resolve(schema, one), **{k: v for k, v in one.items() if k != "$ref"}},
            values.get(name),
            name in required,
            (fixed or {}).get(name, ""),
        )
        for name, one in schema["properties"].items()
        if name not in skipped
    ]


def secret_field(name: str, stored: str) -> Field:
    """A field for a secret, which is never shown: only whether it is set."""
    shown = {"": "not set", "set": "set; empty keeps it"}.get(stored, f"set: {stored}")
    text = "A secret, or env:NAME or file:/path where it is read. It is stored encrypted."
    return Field(name, "string", text, "", "", False, placeholder=shown, is_secret=True)


def read_fields(
    form: Mapping[str, str], fields: Iterable[Field], prefix: str = ""
) -> dict[str, Any]:
    """The values of a form; None for an empty field, which is the default."""
    found: dict[str, Any] = {}
    for one in fields:
        text = form.get(prefix + one.name)
        if text is None or one.fixed:
            continue
        if one.kind == "array":
            found[one.name] = [line.strip() for line in text.splitlines() if line.strip()]
        elif not text.strip():
            if not one.is_secret:
                found[one.name] = None
        elif one.kind == "boolean":
            found[one.name] = text == "true"
        elif one.kind == "integer" and text.strip().lstrip("-").isdigit():
            found[one.name] = int(text)
        else:
            found[one.name] = text.strip()
    return found


def _make_field(
    name: str, schema: Mapping[str, Any], value: Any, required: bool, fixed: str
) -> Field:
    default = schema.get("default")
    is_open = schema.get("type") == "boolean" and default is None and not required
    return Field(
        name=name,
        kind=str(schema.get("type", "string")),
        help=schema.get("description", "").replace("`", ""),
        value=_to_text(default if value is None and schema.get("type") == "boolean" else value),
        default=_to_text(default),
        required=required,
        choices=("true", "false") if is_open else tuple(map(str, schema.get("enum", ()))),
        pattern=_to_html_pattern(schema.get("pattern", "")),
        minimum=schema.get("minimum"),
        maximum=schema.get("maximum"),
        placeholder=_to_text(default),
        fixed=fixed,
    )


def _resolve(schema: Mapping[str, Any], one: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a field's reference or its first alternative that is not null says about its type."""
    for option in (one, *one.get("anyOf", ()), *one.get("allOf", ())):
        if "$ref" in option:
            found: Mapping[str, Any] = schema["$defs"][option["$ref"].rpartition("/")[2]]
            return {k: v for k, v in found.items() if k != "description"}
        if option.get("type") not in (None, "null"):
            return {k: v for k, v in option.items() if k != "description"}
    return {}


def _to_html_pattern(pattern: str) -> str:
    """A pattern for a browser, which matches whole values and lets empty ones pass.

    Browsers compile it with the flag v, for which some characters in classes are escaped.
    """
    whole = pattern.removeprefix("^$|") if "|^" not in pattern[3:] else pattern
    return _CLASS.sub(lambda found: f"[{_escape_class(found[1])}]", whole)


_CLASS = re.compile(r"\[((?:\\.|[^\]\\])+)\]")


def _escape_class(text: str) -> str:
    escaped = re.sub(r"(?<!\\)[(){}/|]", r"\\\g<0>", text)
    return re.sub(r"^-|(?<!\\)-$", r"\\-", escaped)


def _to_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    return str(value)

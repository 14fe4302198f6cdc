"""Errors of pydantic as sentences, for people who do not know pydantic."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

Error = Mapping[str, Any]
"""An item of `ValidationError.errors()`."""

_LIST = 'it should be a list, such as ["a", "b"]'
_TABLE = "it should have names and values: an object in JSON, a table in TOML"
_NUMBER = "it should be a number"
_WHOLE = "it should be a whole number"
_TIME = "it should be a time with its zone, such as 2026-11-17T08:00:00Z"
_SENTENCES: Mapping[str, str] = {
    "missing": "it is missing",
    "extra_forbidden": "it is not a setting",
    "string_type": "it should be a text",
    "bool_type": "it should be true or false",
    "bool_parsing": "it should be true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "tuple_type": _LIST,
    "list_type": _LIST,
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": _TIME,
    "string_too_short": "it should have at least {min_length} characters",
    "string_too_long": "it should have at most {max_length} characters",
    "too_short": "it should have at least {min_length} items",
    "too_long": "it should have at most {max_length} items",
    "json_invalid": "it is not valid JSON ({error})",
}
"""What is wrong, by the type of the error; others keep pydantic's words."""
_PRINTABLE = re.compile(r"\^\[!-~\](\*|\{\d+,\d+\})\$")
"""The patterns of names that a URL or a log can have."""


def explain_errors(errors: Sequence[Error], model: type[BaseModel] | None = None) -> str:
    """What is wrong with settings as one line: which, their values, and what is allowed."""
    return "; ".join(_explain_error(error, model) for error in drop_repeated(errors))


def _explain_error(error: Error, model: type[BaseModel] | None) -> str:
    setting, sentence = ".".join(map(str, error["loc"])), describe_error(error, model)
    if not setting:  # a rule over several settings, whose message names them
        return sentence
    if error["type"] in ("missing", "extra_forbidden"):
        return f"{setting} {sentence.removeprefix('it ')}"
    is_short = isinstance(error["input"], str | int | float | None)
    return f"{setting} is {error['input']!r}: {sentence}" if is_short else f"{setting}: {sentence}"


def describe_error(error: Error, model: type[BaseModel] | None = None) -> str:
    """What is wrong with a field, or allowed, without its name and value.

    The model is the one that `loc` begins in: a name that it does not have may be a typing error.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _describe_pattern(context["pattern"])
    if context.get("min_length") == 1:
        return "it should not be empty"
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**context) + _suggest_name(error, model)
    message = str(error["msg"]).removeprefix("Value error, ")
    return message.replace("Input should be", "it should be", 1)


def drop_repeated(errors: Sequence[Error]) -> list[Error]:
    """The errors without lists that are too short only because their items are wrong."""
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or not any(
            len(one["loc"]) > len(error["loc"]) and one["loc"][: len(error["loc"])] == error["loc"]
            for one in errors
        )
    ]


def _describe_pattern(pattern: str) -> str:
    if _PRINTABLE.fullmatch(pattern):
        return "it should have no spaces, and only ASCII letters, digits and signs"
    if pattern == r"^[^\x00]*$":
        return "it should have no NUL characters"
    allowed = pattern.removeprefix("^$|")  # it may also be empty, which is the default
    return f"it should match '{allowed}'"


def _suggest_name(error: Error, model: type[BaseModel] | None) -> str:
    if error["type"] != "extra_forbidden" or model is None or len(error["loc"]) != 1:
        return ""
    near = get_close_matches(str(error["loc"][0]), model.model_fields, 1)
    return f"; did you mean {near[0]}?" if near else ""

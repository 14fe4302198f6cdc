"""Forms made from settings: what browsers are told, and what comes back."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from eventlake.server.pages.forms import list_fields, read_fields


class Settings(BaseModel):
    bucket: Annotated[str, Field(pattern=r"^$|^[a-z0-9.-]+$", description="As `events`")]
    role: Annotated[str, Field(pattern=r"^arn:[\w+=,.@/-]+$")] = ""
    is_on: bool = True
    style: bool | None = None
    names: tuple[str, ...] = ()
    days: Annotated[int, Field(ge=0, le=9)] = 7


def test_fields_say_what_is_allowed() -> None:
    fields = {one.name: one for one in list_fields(Settings, {"days": 3})}
    assert (fields["bucket"].required, fields["bucket"].help) == (True, "As events")
    assert (fields["days"].minimum, fields["days"].maximum, fields["days"].value) == (0, 9, "3")
    assert (fields["is_on"].value, fields["is_on"].choices) == ("true", ())


def test_patterns_are_escaped_for_browsers() -> None:
    """They compile patterns with the flag v, which takes `-` and `/` in classes for syntax."""
    fields = {one.name: one for one in list_fields(Settings, {})}
    assert fields["bucket"].pattern == r"^[a-z0-9.\-]+$"
    assert fields["role"].pattern == r"^arn:[\w+=,.@\/\-]+$"


@pytest.mark.parametrize(("entered", "value"), [("", None), ("true", True), ("false", False)])
def test_a_switch_without_a_default_can_stay_open(entered: str, value: bool | None) -> None:
    fields = list_fields(Settings, {})
    [style] = [one for one in fields if one.name == "style"]
    assert (style.choices, style.value) == (("true", "false"), "")
    assert read_fields({"style": entered}, fields) == {"style": value}


def test_what_comes_back_has_the_types_of_the_settings() -> None:
    form = {"set.bucket": " a ", "set.days": "5", "set.names": "a\n\nb ", "set.is_on": "false"}
    assert read_fields(form, list_fields(Settings, {}), "set.") == {
        "bucket": "a",
        "days": 5,
        "names": ["a", "b"],
        "is_on": False,
    }

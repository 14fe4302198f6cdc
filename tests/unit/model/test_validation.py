"""Errors of pydantic as sentences."""

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from eventlake.model.validation import explain_errors
from eventlake.model.values import FrozenModel


class Part(FrozenModel):
    """A part of the settings."""

    size: int = 0


class Model(FrozenModel):
    """Settings of every type."""

    name: Annotated[str, Field(pattern=r"^[!-~]*$", max_length=5)] = ""
    text: Annotated[str, Field(pattern=r"^[^\x00]*$")] = ""
    code: Annotated[str, Field(pattern=r"^$|^[a-z]+$")] = ""
    numbers: Annotated[tuple[int, ...], Field(min_length=1, max_length=2)] = (1,)
    parts: dict[str, Part] = Field(default_factory=dict)
    share: float = 0.0
    is_on: bool = False


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"name": "a b"},
            "name is 'a b': it should have no spaces, and only ASCII letters, digits",
        ),
        ({"name": "abcdef"}, "name is 'abcdef': it should have at most 5 characters"),
        ({"text": "a\0"}, "text is 'a\\x00': it should have no NUL characters"),
        ({"code": "A"}, "code is 'A': it should match '^[a-z]+$'"),
        ({"numbers": 3}, 'numbers is 3: it should be a list, such as ["a", "b"]'),
        ({"numbers": []}, "numbers: it should not be empty"),
        ({"numbers": [1, 2, 3]}, "numbers: it should have at most 2 items"),
        ({"numbers": ["x"]}, "numbers.0 is 'x': it should be a whole number"),
        ({"parts": 3}, "parts is 3: it should have names and values"),
        ({"parts": {"a": 3}}, "parts.a is 3: it should have names and values"),
        ({"parts": {"a": {"siz": 3}}}, "parts.a.siz is not a setting"),
        ({"share": "x"}, "share is 'x': it should be a number"),
        ({"is_on": "x"}, "is_on is 'x': it should be true or false"),
        ({"part": {}}, "part is not a setting; did you mean parts?"),
        ({"other": 1}, "other is not a setting"),
    ],
)
def test_sentences(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(values)
    explained = explain_errors(caught.value.errors(), Model)
    assert explained.startswith(sentence)
    assert "; did" in explained or "; " not in explained

"""The base of every value that is written down: frozen, strict about names, plain JSON."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A frozen record that goes to JSON and back unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_defaults=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        return cls.model_validate_json(data)

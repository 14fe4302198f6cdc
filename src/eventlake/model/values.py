"""The base of every model that is stored as JSON."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """An immutable pydantic model without extra fields; JSON round trips are exact."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_defaults=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        return cls.model_validate_json(data)

"""What the settings of all kinds of lakes have in common."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from eventlake.errors import InvalidSettings
from eventlake.model.validation import explain_errors
from eventlake.model.values import FrozenModel


class Place(NamedTuple):
    """Where the data of a lake is: no two lakes of a workspace have the same place."""

    address: str
    """The absolute path of a folder, or the URL of a bucket or container."""
    endpoint: str = ""
    """The server of the bucket, if it is not the cloud's."""


class LakeSettings(FrozenModel):
    """The base of a lake's settings; each kind of lake has a subclass, and no secrets in it."""

    # Validation errors are chained to ours and must not show secrets.
    model_config = ConfigDict(hide_input_in_errors=True)

    kind: ClassVar[str]
    """The name of the kind."""
    chosen_by: ClassVar[str]
    """The setting that only this kind has."""
    address: ClassVar[str] = ""
    """The form of the addresses of such lakes, if they have any but a path."""
    container: ClassVar[str] = "bucket"
    """What such an address names."""
    makes_clusters: ClassVar[bool] = False
    """Whether a cluster can be created for one run."""
    segment_names: ClassVar[Mapping[str, str]] = {}
    """Segment's names of settings and secrets, in snake case, where ours are others."""
    secrets: ClassVar[Mapping[str, str]] = {}
    """The names of the lake's secrets, and the environment variable for each."""

    format: Annotated[
        Literal["parquet", "delta"],
        Field(description="The format of the tables: plain Parquet files, or Delta tables of them"),
    ] = "parquet"

    @property
    def has_cluster(self) -> bool:
        """Whether runs are on a cluster instead of this machine."""
        return False

    @property
    def place(self) -> Place:
        """Where the lake's data is, by which two lakes are compared."""
        return Place(f"{self.kind}:{getattr(self, self.chosen_by)}")

    @classmethod
    def parse_address(cls, address: str) -> Mapping[str, str]:
        """The settings in an address of this kind; raises InvalidSettings for a wrong one."""
        raise NotImplementedError

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Settings of this kind; raises InvalidSettings with each wrong one and what is allowed."""
        try:
            return cls.model_validate(values)
        except ValidationError as problem:
            raise InvalidSettings(explain_errors(problem.errors(), cls)) from problem

    def to_words(self) -> list[str]:
        """The settings that are not the defaults as words `name=value`, without secrets."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return [f"kind={self.kind}", *(f"{name}={value}" for name, value in values.items())]

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, values: Any) -> Any:
        for name, variable in cls.secrets.items():
            if name in values:
                raise ValueError(
                    f"{name} is not a setting: put it into {variable}, or into "
                    "the file that credentials_file names"
                )
        return values

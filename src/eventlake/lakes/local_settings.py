"""The settings of lakes on disk."""

from typing import Annotated

from pydantic import Field

from eventlake.model.lake import LakeSettings


class LocalSettings(LakeSettings):
    """A lake on disk."""

    kind = "local"
    chosen_by = "path"

    path: Annotated[str, Field(min_length=1, description="The lake's root folder")]

"""The settings of lakes on disk."""

import os
from typing import Annotated

from pydantic import Field

from eventlake.model.lake import LakeSettings, Place


class LocalSettings(LakeSettings):
    """A lake on disk."""

    kind = "local"
    chosen_by = "path"

    path: Annotated[str, Field(min_length=1, description="The lake's root folder")]

    @property
    def place(self) -> Place:
        return Place(os.path.realpath(self.path))

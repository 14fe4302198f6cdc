"""The settings of the kind of lake of `other_lake`."""

from eventlake.lakes.local_settings import LocalSettings


class OtherSettings(LocalSettings):
    """A lake on disk with another layout."""

    kind = "other"

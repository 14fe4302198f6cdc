"""Notices changes of the lake's suppression list while a collector runs."""

import sys
from dataclasses import dataclass, field
from datetime import datetime

from eventlake.errors import EventLakeError
from eventlake.model.layout import SUPPRESSION
from eventlake.stores import Object, Store
from eventlake.suppression import SuppressionList, read_suppression_list


@dataclass
class SuppressionWatch:
    """The lake's suppression list as it was last read."""

    store: Store
    warns: bool = True
    """Whether it says when the list cannot be read."""
    current: SuppressionList = field(default_factory=SuppressionList)
    _object: Object | None = None
    _is_failing: bool = False

    @property
    def changed(self) -> datetime | None:
        """When the list was last changed; None if there is none."""
        return self._object.modified if self._object else None

    def load_changes(self) -> bool:
        """Read the list again if its object has changed; return whether it was read.

        Raises the store's errors, and `Damaged`.
        """
        if self._object:
            self.store.check_not_gone()
        latest = self.store.find(SUPPRESSION)
        if latest == self._object:
            return False
        # A change between the two requests is noticed next time, because `latest` is older.
        self.current, self._object = read_suppression_list(self.store), latest
        return True

    def poll(self) -> bool:
        """Like `load_changes`; keep the list after an error, and warn once until it works again."""
        try:
            has_changed = self.load_changes()
        except EventLakeError as problem:
            if self.warns and not self._is_failing:
                sys.stderr.write(f"warning: {problem}; the last suppression list stays in effect\n")
            self._is_failing = True
            return False
        self._is_failing = False
        return has_changed

"""Properties as careless senders have them: mixed types, arrays of numbers, computed numbers."""

from typing import Any
from zlib import crc32

import msgspec

from eventlake.sample.dice import Dice
from eventlake.sample.properties import Properties

NUMBER_SHARE = 0.01
"""The share of texts that are sent as numbers."""
EVERY = 7
"""One property in this many is an array of numbers, and one an object of computed numbers."""
PARTS = ("lat", "lon", "ratio")


def make_messy(fields: Properties, dice: Dice) -> Properties:
    """The same properties, with values as if computed and sent by careless programs."""
    return {key: _make_value(key, value, dice) for key, value in fields.items()}


def _make_value(key: str, value: Any, dice: Dice) -> Any:
    match crc32(key.encode()) % EVERY:
        case 0:
            return [_draw_number(dice) for _ in range(dice.between(1, 6))]
        case 1:
            return {part: _compute_number(dice) for part in PARTS}
    return _draw_number(dice) if isinstance(value, str) and dice.chance(NUMBER_SHARE) else value


def _draw_number(dice: Dice) -> float:
    return dice.between(0, 9999) if dice.chance(0.5) else dice.money(0, 999)


def _compute_number(dice: Dice) -> msgspec.Raw:
    """A number with 15 to 19 digits, as divisions and sensors give."""
    digits = dice.between(13, 17)
    return msgspec.Raw(b"%d.%0*d" % (dice.between(10, 99), digits, dice.between(1, 10**digits - 1)))

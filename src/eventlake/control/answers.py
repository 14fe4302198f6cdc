"""Answers to requests with an idempotency key: a repeated request gets the first answer again."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from eventlake.control.database import Session, insert_if_absent
from eventlake.control.people_tables import answers
from eventlake.errors import InvalidSettings

KEPT = timedelta(days=1)
MAX_KEY_CHARS = 200


class Answer(NamedTuple):
    """The status and the JSON body of a reply."""

    status: int
    body: Any
    is_repeated: bool = False


class IdempotencyKey(NamedTuple):
    """A key, whose it is, and a digest of the request that it came with."""

    actor: str
    key: str
    fingerprint: str


def answer_once(
    session: Session, key: IdempotencyKey, act: Callable[[], Answer], now: datetime
) -> Answer:
    """Act, or return the answer of the first request with the key.

    The answer is stored in the transaction of the action, so that both are there or neither; a
    second request that comes meanwhile waits for it. Raises InvalidSettings for a key that was used
    with another request. Keys are kept for a day.
    """
    if not 1 <= len(key.key) <= MAX_KEY_CHARS or not key.key.isprintable():
        raise InvalidSettings(f"Idempotency-Key must have 1 to {MAX_KEY_CHARS} characters")
    session.execute(answers.delete().where(answers.c.created_at < now - KEPT))
    row = {**key._asdict(), "status": 0, "created_at": now}
    is_it = sa.and_(answers.c.actor == key.actor, answers.c.key == key.key)
    if not insert_if_absent(session, answers, [row]):
        first = session.execute(sa.select(answers).where(is_it)).one()
        if first.fingerprint != key.fingerprint:
            raise InvalidSettings(
                f"Idempotency-Key is {key.key!r}: another request had this key; use a new one"
            )
        return Answer(first.status, first.body, is_repeated=True)
    answer = act()
    session.execute(answers.update().where(is_it).values(status=answer.status, body=answer.body))
    return answer

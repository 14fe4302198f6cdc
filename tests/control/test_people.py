"""Users, sessions, tokens, the audit log and idempotency keys, on both databases."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import perf_counter
from typing import Any

import pytest
import sqlalchemy as sa

from eventlake.control import people_tables
from eventlake.control.answers import Answer, IdempotencyKey, answer_once
from eventlake.control.audit import Actor, Change, list_audit, record
from eventlake.control.database import Database
from eventlake.control.passwords import verify_password
from eventlake.control.roles import Role, Scope
from eventlake.control.sessions import (
    IDLE,
    LIFETIME,
    end_session,
    find_session_user,
    log_in,
    start_session,
)
from eventlake.control.tokens import add_token, find_token, list_tokens, remove_token
from eventlake.control.users import (
    User,
    add_first_admin,
    add_user,
    change_user,
    has_people,
    list_users,
    remove_user,
)
from eventlake.control.workspace import ensure_workspace
from eventlake.errors import Conflict, InvalidSettings, NotFound
from eventlake.model.values import FrozenModel
from tests.clocks import SimulatedClock

PASSWORD = "correct horse battery"


@pytest.fixture
def ada(database: Database, clock: SimulatedClock) -> User:
    with database.write() as session:
        ensure_workspace(session, clock.now())
        return add_user(session, "Ada@Example.com", PASSWORD, Role.ADMIN, clock.now())


def dump(database: Database) -> str:
    """All values of the tables of people, as text."""
    with database.read() as session:
        tables = [people_tables.users, people_tables.sessions, people_tables.tokens]
        return str([session.execute(sa.select(one)).all() for one in tables])


def test_roles_include_the_ones_before() -> None:
    allowed = {(role, needed) for role in Role for needed in Role if role.may(needed)}
    assert allowed == {
        (Role.VIEWER, Role.VIEWER),
        (Role.OPERATOR, Role.VIEWER),
        (Role.OPERATOR, Role.OPERATOR),
        (Role.ADMIN, Role.VIEWER),
        (Role.ADMIN, Role.OPERATOR),
        (Role.ADMIN, Role.ADMIN),
    }
    assert [scope.role for scope in Scope] == list(Role)


def test_a_user_logs_in_with_any_case_of_the_address(
    database: Database, clock: SimulatedClock, ada: User
) -> None:
    identity = log_in(database, "ADA@example.com", PASSWORD, clock.now())
    assert identity
    assert len(identity) >= 43  # 256 bits
    assert find_session_user(database, identity, clock.now()) == ada
    assert find_session_user(database, identity + "x", clock.now()) is None
    assert log_in(database, ada.email, PASSWORD, clock.now()) != identity


def test_a_wrong_password_or_name_does_not_log_in(
    database: Database, clock: SimulatedClock, ada: User
) -> None:
    assert log_in(database, ada.email, PASSWORD + " ", clock.now()) is None
    assert log_in(database, "nobody@example.com", PASSWORD, clock.now()) is None
    assert not verify_password(PASSWORD, "not a hash")


def test_an_unknown_name_takes_as_long_as_a_wrong_password(
    database: Database, clock: SimulatedClock, ada: User
) -> None:
    def measure(email: str) -> float:
        began = perf_counter()
        assert log_in(database, email, "wrong", clock.now()) is None
        return perf_counter() - began

    measure("nobody@example.com")
    pairs = [(measure(ada.email), measure("nobody@example.com")) for _ in range(5)]
    known, unknown = (min(times) for times in zip(*pairs, strict=True))
    assert 0.5 < known / unknown < 2


def test_a_session_ends_when_it_is_idle_and_after_a_week(
    database: Database, clock: SimulatedClock, ada: User
) -> None:
    with database.write() as session:
        identity = start_session(session, ada.id, clock.now())
    while_used = IDLE - timedelta(minutes=2)
    began = clock.now()
    while clock.now() + while_used < began + LIFETIME:
        clock.advance(while_used)
        assert find_session_user(database, identity, clock.now())
    clock.advance(while_used)
    assert find_session_user(database, identity, clock.now()) is None
    with database.write() as session:
        idle = start_session(session, ada.id, clock.now())
    clock.advance(IDLE + timedelta(seconds=1))
    assert find_session_user(database, idle, clock.now()) is None


def test_sessions_end_by_logging_out_and_by_a_new_password(
    database: Database, clock: SimulatedClock, ada: User
) -> None:
    with database.write() as session:
        first, second, third = (start_session(session, ada.id, clock.now()) for _ in range(3))
        end_session(session, first)
    assert find_session_user(database, first, clock.now()) is None
    assert find_session_user(database, second, clock.now()) == ada
    with database.write() as session:
        change_user(session, ada.id, password="a new password")
    assert find_session_user(database, third, clock.now()) is None
    assert log_in(database, ada.email, PASSWORD, clock.now()) is None
    assert log_in(database, ada.email, "a new password", clock.now())


def test_the_last_admin_stays(database: Database, clock: SimulatedClock, ada: User) -> None:
    with pytest.raises(InvalidSettings, match="the only admin"), database.write() as session:
        remove_user(session, ada.id)
    with pytest.raises(InvalidSettings, match="the only admin"), database.write() as session:
        change_user(session, ada.id, role=Role.VIEWER)
    with database.write() as session:
        add_user(session, "bob@example.com", PASSWORD, Role.ADMIN, clock.now())
        remove_user(session, ada.email)
        assert [user.email for user in list_users(session)] == ["bob@example.com"]


def test_wrong_users_are_refused(database: Database, clock: SimulatedClock, ada: User) -> None:
    def add(email: str, password: str) -> None:
        with database.write() as session:
            add_user(session, email, password, Role.VIEWER, clock.now())

    with pytest.raises(InvalidSettings, match="such a user already"):
        add(" ada@EXAMPLE.com", PASSWORD)
    with pytest.raises(InvalidSettings, match="give an address"):
        add("ada", PASSWORD)
    with pytest.raises(InvalidSettings, match="10 to 1024 characters"):
        add("bob@example.com", "short")
    with pytest.raises(NotFound, match="no such user"), database.write() as session:
        remove_user(session, "bob@example.com")


def test_only_one_of_many_becomes_the_first_admin(
    database: Database, clock: SimulatedClock
) -> None:
    with database.write() as session:
        ensure_workspace(session, clock.now())
        assert not has_people(session)

    def try_to(number: int) -> bool:
        try:
            with database.write() as session:
                add_first_admin(session, f"u{number}@example.com", PASSWORD, clock.now())
        except InvalidSettings:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(try_to, range(4))) == 1
    with database.read() as session:
        assert has_people(session)


def test_tokens_work_until_they_expire_or_are_removed(
    database: Database, clock: SimulatedClock
) -> None:
    end = clock.now() + timedelta(days=30)
    with database.write() as session:
        made = add_token(session, "ci", Scope.WRITE, clock.now(), end)
        other = add_token(session, "cd", Scope.READ, clock.now())
    assert made.secret.startswith(f"el_{made.token.id}_")
    found = find_token(database, made.secret, clock.now())
    assert found == made.token
    with database.read() as session:
        assert {one.id: one.used_at for one in list_tokens(session)} == {
            made.token.id: clock.now(),
            other.token.id: None,
        }
    mixed = f"el_{other.token.id}_{made.secret.split('_', 2)[2]}"
    for wrong in (made.secret + "x", made.secret[:-1], mixed, "", "el__", made.token.id):
        assert find_token(database, wrong, clock.now()) is None
    clock.advance(timedelta(days=30))
    assert find_token(database, made.secret, clock.now()) is None
    with database.write() as session:
        remove_token(session, other.token.id)
    assert find_token(database, other.secret, clock.now()) is None


def test_wrong_tokens_are_refused(database: Database, clock: SimulatedClock) -> None:
    with database.write() as session:
        for name in ("", " ", "x" * 101, "a\nb"):
            with pytest.raises(InvalidSettings, match="printable"):
                add_token(session, name, Scope.READ, clock.now())
        with pytest.raises(InvalidSettings, match="in the future"):
            add_token(session, "ci", Scope.READ, clock.now(), clock.now())
        with pytest.raises(NotFound):
            remove_token(session, "x")


def test_the_database_holds_no_password_session_or_token(
    database: Database, clock: SimulatedClock, ada: User
) -> None:
    with database.write() as session:
        token = add_token(session, "ci", Scope.READ, clock.now())
    identity = log_in(database, ada.email, PASSWORD, clock.now())
    text = dump(database)
    assert "$argon2id$v=19$m=65536,t=3,p=4$" in text
    for secret in (PASSWORD, identity, token.secret, token.secret.split("_", 2)[2]):
        assert secret
        assert secret not in text


class Thing(FrozenModel):
    name: str
    write_keys: tuple[str, ...] = ()
    secrets: dict[str, str] | None = None
    nested: tuple[dict[str, str], ...] = ()


def test_the_audit_log_masks_secrets(database: Database, clock: SimulatedClock) -> None:
    before = Thing(name="a")
    after = Thing(name="b", secrets={"account_key": "s3cr3t"}, nested=({"apiToken": "hush"},))
    actor = Actor("user:ada@example.com", "127.0.0.1", "r1")
    with database.write() as session:
        record(session, actor, Change("lake.change", "lake:main", before, after), clock.now())
        (entry,) = list_audit(session, before_id=None, limit=10)
    assert (entry.actor, entry.address, entry.request_id) == actor
    assert entry.before["name"] == "a"
    assert entry.after == {
        "name": "b",
        "write_keys": [],
        "secrets": "***",
        "nested": [{"apiToken": "***"}],
    }


def test_the_audit_log_is_paged_and_filtered(database: Database, clock: SimulatedClock) -> None:
    with database.write() as session:
        for number in range(5):
            change = Change("source.change", f"source:{number % 2}")
            record(session, Actor("local"), change, clock.now())
        first = list_audit(session, before_id=None, limit=2)
        rest = list_audit(session, before_id=first[-1].id, limit=10)
        assert [one.id for one in (*first, *rest)] == [5, 4, 3, 2, 1]
        odd = list_audit(session, before_id=None, limit=10, object_="source:1")
        assert [one.id for one in odd] == [4, 2]


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'x'", "DELETE FROM audit"])
def test_the_audit_log_cannot_be_changed(
    database: Database, clock: SimulatedClock, statement: str
) -> None:
    with database.write() as session:
        record(session, Actor("local"), Change("source.add", "source:web"), clock.now())
    with pytest.raises(Conflict, match="append-only"), database.write() as session:
        session.execute(sa.text(statement))


@pytest.fixture
def acts(database: Database, clock: SimulatedClock) -> Any:
    """Asks with a key; the answers count the actions."""
    count, lock = 0, threading.Lock()

    def act() -> Answer:
        nonlocal count
        with lock:
            count += 1
            return Answer(201, {"number": count})

    def ask(key: str, fingerprint: str = "f", actor: str = "local") -> Answer:
        with database.write() as session:
            identity = IdempotencyKey(actor, key, fingerprint)
            return answer_once(session, identity, act, clock.now())

    return ask


def test_a_repeated_request_gets_the_first_answer(acts: Any, clock: SimulatedClock) -> None:
    assert acts("a") == Answer(201, {"number": 1})
    assert acts("a") == Answer(201, {"number": 1}, is_repeated=True)
    assert acts("a", actor="other").body == {"number": 2}
    with pytest.raises(InvalidSettings, match="another request had this key"):
        acts("a", "another body")
    clock.advance(timedelta(days=2))
    assert acts("a").body == {"number": 3}


def test_requests_at_once_with_one_key_act_once(acts: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(acts, ["k"] * 8))
    assert [one.body for one in found] == [{"number": 1}] * 8
    assert sum(not one.is_repeated for one in found) == 1


def test_a_failed_action_leaves_no_answer(
    database: Database, clock: SimulatedClock, acts: Any
) -> None:
    def fail() -> Answer:
        raise NotFound("no such source")

    with pytest.raises(NotFound), database.write() as session:
        answer_once(session, IdempotencyKey("local", "k", "f"), fail, clock.now())
    assert acts("k").body == {"number": 1}

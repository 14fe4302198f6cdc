"""The suppression list in every store: changes are atomic, and collectors notice them."""

from concurrent.futures import ThreadPoolExecutor

from eventlake.collect.suppression_watch import SuppressionWatch
from eventlake.stores import Store
from eventlake.suppression import change_suppression_list, read_suppression_list
from tests.contracts.test_store import aws, azure, store

__all__ = ["aws", "azure", "store"]


def test_a_lake_without_a_list_suppresses_nobody(store: Store) -> None:
    assert read_suppression_list(store).matcher() == frozenset()
    assert not SuppressionWatch(store).load_changes()


def test_changes_at_the_same_time_are_all_kept(store: Store) -> None:
    def add(number: int) -> None:
        change_suppression_list(store, lambda listed: listed.add([f"u{number}"]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    assert set(read_suppression_list(store).users) == {f"u{number}" for number in range(12)}


def test_a_collector_reads_the_list_when_it_has_changed(store: Store) -> None:
    watch = SuppressionWatch(store)
    for users in (["u1"], ["u2"]):
        change_suppression_list(store, lambda listed, new=users: listed.add(new))
        assert watch.poll()
        assert watch.current == read_suppression_list(store)
        assert not watch.poll()

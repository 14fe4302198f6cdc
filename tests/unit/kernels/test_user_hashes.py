"""Hashes of users' ids: of whole arrays, and of many files at once."""

import numpy as np
import pyarrow as pa

from eventlake.kernels.user_hashes import BATCH_ROWS, HashCollector, has_any, hash_ids


def one_hash(text: str) -> int:
    (value,) = hash_ids(pa.array([text])).tolist()
    return int(value)


def test_a_hash_depends_on_the_string_alone() -> None:
    texts = ["a", "bb", "é" * 5, "x" * 8, "x" * 9, "x" * 300, "\0", "\0\0", "user_123"]
    array = pa.array(["before", *texts, "after"]).slice(1, len(texts))
    assert hash_ids(array).tolist() == [one_hash(text) for text in texts]
    assert len(set(hash_ids(array).tolist())) == len(texts)


def test_hashes_are_stored_so_they_never_change() -> None:
    assert [one_hash("user_123"), one_hash("8a3af4d0-fbbd-452b-ae08-6a1d0aed72f1")] == STORED


STORED = [3824905464, 556355103]


def test_nulls_and_empty_strings_have_none() -> None:
    assert hash_ids(pa.array([None, "", "a", None])).tolist() == [one_hash("a")]
    assert hash_ids(pa.array([None], pa.string())).tolist() == []
    assert hash_ids(pa.array([], pa.string())).tolist() == []


def test_few_ids_collide() -> None:
    ids = pa.array([f"user_{number}" for number in range(200_000)])
    assert len(np.unique(hash_ids(ids))) > 199_980


def test_the_ids_of_several_files() -> None:
    ids = HashCollector()
    ids.add(7, pa.chunked_array([["a", "b", None], ["a"]]))
    ids.add_rows(np.array([7, 8, 9, 8]), pa.array(["c", "d", None, "d"]))
    found = {file: hashes.tolist() for file, hashes in ids.finish().items()}
    assert found == {7: sorted(map(one_hash, "abc")), 8: [one_hash("d")]}


def test_many_rows_of_a_file() -> None:
    ids, texts = HashCollector(), [f"u{number}" for number in range(3 * BATCH_ROWS + 5)]
    ids.add(0, pa.array(texts))
    assert ids.finish()[0].tolist() == np.unique(hash_ids(pa.array(texts))).tolist()
    assert HashCollector().finish() == {}


def test_looking_for_hashes() -> None:
    hashes = np.array([3, 5, 9], np.uint32)
    assert has_any(hashes, np.array([1, 5], np.uint32))
    assert has_any(hashes, np.array([9], np.uint32))
    assert not has_any(hashes, np.array([1, 4, 10], np.uint32))
    assert not has_any(hashes[:0], np.array([1], np.uint32))

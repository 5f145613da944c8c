"""Partitioned data sets: every pair once, whatever the number of processes that read it."""

from dataclasses import replace

import numpy as np
import pytest

import spherec
from spherec.data.container import kind_of
from spherec.distributed.group import ProcessGroup
from spherec.distributed.held import hold
from spherec.distributed.partitions import PartitionedInteractions, save_partitions
from spherec.errors import ArgumentError, DataError
from tests.sampling.checks import CPU, interactions, random_rows

DATA = interactions(random_rows(37, 23, 0.2))


@pytest.fixture
def folder(tmp_path):
    save_partitions(DATA, tmp_path / "events.parts", 4)
    return tmp_path / "events.parts"


@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_what_is_read_is_what_was_saved(tmp_path, partitions):
    times = np.arange(len(DATA), dtype=np.float64)
    names = tuple(f"item {number}" for number in range(DATA.n_items))
    data = replace(DATA, times=times, weights=times + 1, item_names=names)
    save_partitions(data, tmp_path / "p", partitions)
    assert kind_of(tmp_path / "p") == "spherec-partitions"
    read = PartitionedInteractions.open(tmp_path / "p").read()
    assert read == data
    assert read.steps == data.steps


@pytest.mark.parametrize("n", [1, 2, 4])
def test_every_process_holds_the_pairs_of_the_users_whose_rows_it_holds(folder, n):
    whole = PartitionedInteractions.open(folder)
    for rank in range(n):
        held = hold(whole, ProcessGroup(CPU, rank, n))
        mine = (DATA.users + DATA.n_items) % n == rank
        assert np.array_equal(held.users, DATA.users[mine])
        assert np.array_equal(held.indices, DATA.indices[mine])
        assert (held.n_pairs, held.active_users) == (len(DATA), DATA.active_users)
        assert np.array_equal(held.users_per_item, DATA.users_per_item)
        sizes = np.bincount(held.partition_of_pairs(), minlength=4)
        assert np.array_equal(sizes[rank::n], held.totals.partition_sizes[rank::n])


def test_a_number_of_processes_that_does_not_fit_is_refused(folder):
    with pytest.raises(ArgumentError, match=r"4 partitions, which 3 processes .* start one of 1, 2, 4 processes"):
        PartitionedInteractions.open(folder).read_share(0, 3)


@pytest.mark.parametrize("partitions", [0, -1, 10_000, 2.0])
def test_a_wrong_number_of_partitions_is_refused(tmp_path, partitions):
    with pytest.raises(ArgumentError, match="partitions must be a whole number"):
        save_partitions(DATA, tmp_path / "p", partitions)


@pytest.mark.parametrize("name", ["pairs-1.safetensors", "ids.safetensors"])
def test_a_file_of_another_data_set_is_refused(folder, tmp_path, name):
    other = interactions(random_rows(37, 23, 0.2, seed=1))
    save_partitions(other, tmp_path / "other", 4)
    (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(DataError, match="of another data set"):
        PartitionedInteractions.open(folder).read()


def test_pairs_with_other_weights_are_another_data_set(tmp_path):
    for name, weight in (("one", 1.0), ("two", 2.0)):
        save_partitions(replace(DATA, weights=np.full(len(DATA), weight)), tmp_path / name, 4)
    (tmp_path / "one" / "pairs-1.safetensors").write_bytes((tmp_path / "two" / "pairs-1.safetensors").read_bytes())
    with pytest.raises(DataError, match="of another data set"):
        PartitionedInteractions.open(tmp_path / "one").read()
    one, two = (PartitionedInteractions.open(tmp_path / name).totals.checksum for name in ("one", "two"))
    assert one != two


def test_weights_can_be_left_out(tmp_path):
    save_partitions(replace(DATA, weights=np.full(len(DATA), 3.0)), tmp_path / "w", 4)
    whole = PartitionedInteractions.open(tmp_path / "w")
    assert whole.is_weighed
    assert whole.read_share(1, 2).weights.tolist() == [3.0] * len(whole.read_share(1, 2))
    plain = replace(whole, is_weighed=False)
    assert plain.read() == DATA
    assert plain.read_share(1, 2).weights is None


def test_a_missing_partition_is_an_error_for_the_process_that_needs_it(folder):
    (folder / "pairs-1.safetensors").unlink()
    whole = PartitionedInteractions.open(folder)
    assert len(whole.read_share(0, 2))
    with pytest.raises(DataError, match=r"pairs-1\.safetensors: No such file"):
        whole.read_share(1, 2)


def test_dislikes_are_not_lost_without_a_word(tmp_path):
    taken = set(zip(DATA.users.tolist(), DATA.indices.tolist(), strict=True))
    free = next(item for item in range(DATA.n_items) if (0, item) not in taken)
    disliking = replace(DATA, disliked=np.array([[0, free]], np.int32))
    with pytest.raises(DataError, match="no dislikes"):
        save_partitions(disliking, tmp_path / "p", 2)
    assert disliking.checksums["ids"] != DATA.checksums["ids"], "so other processes hear of it"


def test_read_reads_a_partitioned_data_set(folder):
    assert spherec.read(folder) == DATA
    with pytest.raises(ArgumentError, match="is prepared and knows its own columns"):
        spherec.read(folder, user="u")

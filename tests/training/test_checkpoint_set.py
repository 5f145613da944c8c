"""Files of a checkpoint of several processes."""

from spherec.training.checkpoint import remove_checkpoint


def test_all_parts_are_removed_also_those_that_were_being_written(tmp_path):
    gone = ["m.ck", "m.ck.12.0-of-2", "m.ck.12.1-of-2", ".m.ck.34.1-of-2.592c3c57.part"]
    kept = ["m.ck.npz", "m.ck.12.0-of-2.npz", "other.ck.12.0-of-2", ".other.ck.34.1-of-2.592c3c57.part"]
    for name in gone + kept:
        (tmp_path / name).touch()
    remove_checkpoint(tmp_path / "m.ck")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)

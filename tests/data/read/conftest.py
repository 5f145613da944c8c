"""What the tests of the readers share: files made on the spot, events as plain rows, blocks of any size."""

import gzip
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spherec.data.events import Events
from spherec.data.read import read_events
from spherec.data.read.formats import Reading
from spherec.data.read.streaming import read_blocks


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write text or bytes to a new file of this name; gzipped where the name says so."""
    session = tmp_path_factory.mktemp("files")

    def write(name: str, content: str | bytes, encoding: str = "utf-8") -> Path:
        raw = content if isinstance(content, bytes) else content.encode(encoding)
        path = Path(tempfile.mkdtemp(dir=session)) / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write


@pytest.fixture(scope="session")
def rows() -> Callable[..., list[tuple[Any, ...]]]:
    """The events of a file in its order: (user, item), then value and time where they were asked for."""

    def rows(path: Path, **how: Any) -> list[tuple[Any, ...]]:
        return unfolded(read_events(path, Reading(**how)))

    return rows


def unfolded(events: Events) -> list[tuple[Any, ...]]:
    columns = [events.user_ids[events.users], events.item_ids[events.items], events.values, events.times]
    return list(zip(*(column.tolist() for column in columns if column is not None), strict=True))


@pytest.fixture(scope="session")
def blocks_of() -> Callable[[int], AbstractContextManager[None]]:
    """Inside `with blocks_of(7):`, text files are read 7 bytes at a time."""

    @contextmanager
    def blocks_of(size: int) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(read_blocks.__kwdefaults__, "block_bytes", size)
            yield

    return blocks_of

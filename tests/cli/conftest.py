"""Running the command line in a test."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from spherec.cli import main


@dataclass
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def refusal(self) -> str:
        """Return the one sentence of a command that was refused."""
        assert (self.code, self.out) == (2, "")
        (line,) = [line for line in self.err.splitlines() if line.strip()]
        assert line.startswith("error: ")
        return line


@pytest.fixture
def spherec(capsys, monkeypatch) -> Callable[..., Result]:
    """Run `spherec ARGUMENTS`, as a shell would."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def ratings(tmp_path):
    """A gzipped CSV: ann rated a, b, c; bob a, b; cem a; ann's a comes twice."""
    rows = ["who,what,stars,day", "ann,a,2,2024-01-01", "ann,b,5,2024-01-02", "ann,c,4,2024-01-03"]
    rows += ["bob,a,5,2024-01-04", "bob,b,5,2024-01-05", "cem,a,1,2024-01-06", "ann,a,5,2024-01-07"]
    path = tmp_path / "ratings.csv.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return path


COLUMNS = ("--user-column", "who", "--item-column", "what", "--value-column", "stars", "--time-column", "day")

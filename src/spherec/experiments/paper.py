"""The paper's table 2: what we compare with."""

import csv
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class PaperRow:
    """One line for one data set: means and standard deviations over 4 folds, MAP and NDCG in percent."""

    dataset: str
    sampler: str
    negatives: int
    batch: int
    map_mean: float
    map_std: float
    ndcg_mean: float
    ndcg_std: float
    mmr_mean: float
    mmr_std: float

    @property
    def name(self) -> str:
        """As our rows are called: uniform-5-4096."""
        return f"{self.sampler}-{self.negatives}-{self.batch}"


def paper_rows(dataset: str) -> dict[str, PaperRow]:
    """The 15 rows of a data set, by name, in the paper's order."""
    text = (resources.files("spherec.experiments") / "table2.csv").read_text(encoding="utf-8")
    rows = [
        PaperRow(
            line["dataset"],
            line["sampler"],
            int(line["negatives"]),
            int(line["batch"]),
            *(float(line[name]) for name in ("map_mean", "map_std", "ndcg_mean", "ndcg_std", "mmr_mean", "mmr_std")),
        )
        for line in csv.DictReader(text.splitlines())
    ]
    return {row.name: row for row in rows if row.dataset == dataset}

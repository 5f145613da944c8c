"""The notebooks run: their code cells in order, in one namespace. What they show is a table."""

import ast
import json
from pathlib import Path

import pytest

import spherec
from tests.recommender.models import model_of, small

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "outputs are not kept: they would grow old"
            *lines, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(lines, []), notebook.name, "exec"), namespace)
            if isinstance(last, ast.Expr):
                shown = eval(compile(ast.Expression(last.value), notebook.name, "eval"), namespace)
                assert shown is None or repr(shown)
            else:
                exec(compile(ast.Module([last], []), notebook.name, "exec"), namespace)


def test_data_models_scores_and_lists_are_tables_in_a_notebook():
    fold = spherec.splits.ratio(small(items=["<b>", *map(str, range(40))], density=0.4), 0.3)
    data, model = fold.train, model_of(fold.train)
    lists = model.recommend(data.user_ids[0], k=20)
    for shown, wanted in (
        (data, ["pairs", str(len(data))]),
        (model, ["Hinge", str(data.n_items)]),
        (spherec.CML(), ["not trained"]),
        (spherec.evaluate(model, data, fold.test, k=5), ["ndcg"]),
        (lists, ["score", f"{lists[0].score:.4g}"]),
        (lists[:0], ["score"]),
    ):
        table = shown._repr_html_()
        assert table.startswith("<table>")
        assert "<b>" not in table
        assert all(text in table for text in wanted), table
    assert lists._repr_html_().count("<tr>") == 1 + 10
    assert f"{len(lists) - 10} more rows" in lists._repr_html_()

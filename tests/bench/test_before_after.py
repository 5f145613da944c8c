"""The comparison of two trees: turns, ratios and their spread."""

import before_after


def test_each_tree_comes_first_every_other_time():
    called = []

    def timer(name, speed):
        return lambda: called.append(name) or speed

    pairs = before_after.take_turns(3, timer("this", 6.0), timer("other", 3.0))
    assert called == ["other", "this", "this", "other", "other", "this"]
    assert pairs == [(6.0, 3.0)] * 3


def test_a_figure_is_the_median_of_the_ratios():
    figure = before_after.summarise("x", [(1.0, 2.0), (4.0, 4.0), (9.0, 6.0)])
    assert (figure.ratio, figure.low, figure.high, figure.this, figure.other) == (1.0, 0.75, 1.25, 4.0, 4.0)
    alone = before_after.summarise("x", [(1.0, 2.0)])
    assert (alone.ratio, alone.low, alone.high) == (0.5, 0.5, 0.5)

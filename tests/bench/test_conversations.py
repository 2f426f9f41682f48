"""The script of conversations: what a share means, and what it prints."""

import numpy as np
import pytest
from benchmarks import conversations


def test_the_last_model_alone_is_1_and_indifference_makes_both_equal():
    world = conversations.made_up(1000, 10.0, 0.9, 40, np.random.default_rng(0))
    error = conversations.indifference(world)
    assert conversations.cheap_alone(world, error) == pytest.approx(1.0)
    assert conversations.cheap_alone(world, 2 * error) > 1.0
    assert world.always(1)[0] == pytest.approx(10 * world.always(0)[0])
    alone = conversations.played(world, 1e9 * error)  # no look is worth a wrong answer
    assert alone == pytest.approx(1.0, abs=0.05)


def test_it_prints_worlds_and_what_they_come_to(capsys):
    conversations.main(["anew", "hostile", "--worlds", "2", "--talks", "4"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "world 0",
        "world 1",
        "dear right 1",
        "world 0",
        "dear right 0.5",
        "world 0",
        "dear right 0",
    ]
    assert "2 worlds: of always the dear model default" in lines[2]
    with pytest.raises(SystemExit):
        conversations.main(["nothing"])

"""Recorded answers: where they come from, and that the reference is right most often."""

import numpy as np
import pytest

from weakfeedback.adaptive import instances
from weakfeedback.datasets.answers import CHAINS, FOLDER, load_answers
from weakfeedback.routing import instances as routed

RIGHT = {  # by model, in the order of price
    "rafdb": (0.604, 0.615, 0.715),
    "ferplus": (0.650, 0.684, 0.816),
    "shop": (0.782, 0.889, 0.879, 0.919),
    "audiomnist": (0.926, 0.984, 0.986),
    "yelp": (0.750, 0.869, 0.957),
    "command": (0.802, 0.805, 0.942),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_rise_in_price_up_to_the_model_that_is_right_most_often(name):
    found = load_answers(name)
    right = (found.outputs == found.truth[:, None]).mean(axis=0)
    assert list(found.prices) == sorted(found.prices)
    assert right.argmax() == len(found.models) - 1
    if name in RIGHT:
        assert right == pytest.approx(RIGHT[name], abs=0.001)
    assert (found.groups is not None) == name.startswith("mmlu-pro")
    problem, model = instances.load(name), routed.load(name)
    assert problem.costs == pytest.approx(0.1 * np.array(found.prices) / found.prices[-1], abs=1e-9)
    assert (problem.costs == model.prices).all()
    assert problem.errors == pytest.approx(model.errors)
    assert instances.describe(name).available()
    assert routed.describe(name).available()


def test_prices_by_token_are_those_of_the_table():
    from weakfeedback.datasets.answers import _read

    table = _read("gsm8k")
    for name in ("gsm8k-llama", "gsm8k-gpt", "gsm8k-claude"):
        chain = CHAINS[name]
        for model, tokens in zip(chain.models, chain.tokens, strict=True):
            assert tokens == pytest.approx(
                (table["input_tokens"].mean(), table[f"{model}.tokens"].mean()), abs=1e-3
            )


def test_every_file_has_its_source_its_commit_and_the_licence():
    text = (FOLDER / "SOURCES.md").read_text()
    for file in FOLDER.glob("*.parquet"):
        assert f"`{file.stem}`" in text
    for commit in ("96712f6", "f418b11", "8c1485e", "0b64fda"):
        assert commit in text
    assert "Apache License" in (FOLDER / "LICENSE").read_text()
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 800_000


def test_an_unknown_set_is_told_which_there_are():
    for wrong in ("nope", None, 3):
        with pytest.raises(ValueError, match=r"recorded answers are .*rafdb.*, got "):
            load_answers(wrong)

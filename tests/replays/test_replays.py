"""A log played again: what it says, in which forms it may come, and what is wrong with bad ones."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.rig.pace import pace
from typer.testing import CliRunner

import weakfeedback
from weakfeedback.cli.app import app
from weakfeedback.replays import replay
from weakfeedback.replays.log import read_frame, read_log
from weakfeedback.replays.page import page_of

MODELS, PRICES = ["small", "large"], [1.0, 20.0]


def log(n=1500, seed=0):
    """The small model differs where its score is low; rows are in random order."""
    rng = np.random.default_rng(seed)
    hard, answer = rng.random(n), rng.integers(0, 3, size=n)
    differs = rng.random(n) < np.clip(2.0 * hard - 1.2, 0.01, 1.0)
    return pd.DataFrame(
        {
            "small": np.where(differs, (answer + 1) % 3, answer),
            "small.score": 1.0 - hard,
            "large": answer,
            "kind": np.where(hard > 0.5, "b", "a"),
            "truth": np.where(rng.random(n) < 0.9, answer, 0),
            "small.tokens": rng.integers(1, 9, size=n),
            "large.tokens": rng.integers(1, 9, size=n),
        }
    )


@pytest.fixture(scope="module")
def frame():
    return log()


@pytest.fixture(scope="module")
def found(frame):
    return weakfeedback.replay(frame, models=MODELS, prices=PRICES, group="kind", truth="truth", orders=2)


def test_the_numbers_are_those_of_the_log(frame, found):
    data = found.to_dict()
    assert data["requests"] == 1500
    assert data["reference"] == "large"
    assert data["reference_alone"] == 20.0 * 1500
    small, large = data["models"]
    assert small == {
        "name": "small",
        "price": 1.0,
        "differs": (frame["small"] != frame["large"]).mean(),
        "errors": (frame["small"] != frame["truth"]).mean(),
    }
    assert large["differs"] == 0.0
    assert data["spent"] <= 20.0 * (1.05 * 1500 + 50)
    assert data["saved_share"] == pytest.approx(1.0 - data["spent"] / 30_000)
    assert 0.1 < data["saved_share"] < 0.8
    assert data["differ"] <= data["differ_at_most"] <= 1.0
    assert data["errors"] <= large["errors"] + data["differ"]
    assert data["by_group"].keys() == {"a", "b"}
    low, high = data["spent_interval"]
    assert low <= data["spent"] <= high
    assert found.alone[0].spent == 1500.0
    for name in ("before", "router", "adaptive"):
        low, high = data[name]["spent_interval"]
        assert low <= data[name]["spent"] <= high
    assert data["router"]["spent"] <= 20.0 * (1.05 * 1500 + 50)  # the bound of Pay-to-compare
    assert [way.name for way in found.ways()][-2:] == ["router (Pay-to-compare)", "adaptive rule (USS-A)"]
    assert max(len(line) for line in str(found).splitlines()[2:-2]) <= 80
    json.dumps(data)


def test_without_truth_nothing_is_said_of_errors(frame):
    data = replay(frame, MODELS, PRICES, orders=1).to_dict()
    assert data["errors"] is None
    assert [model["errors"] for model in data["models"]] == [None, None]
    said = str(replay(frame, MODELS, PRICES, orders=1))
    assert "Not known: whether large is right" in said
    assert "wrong" not in said


def test_columns_that_may_be_scores_are_named(frame, found):
    other = frame.rename(columns={"small.score": "small_sure"})
    said = replay(other, MODELS, PRICES, orders=1)
    assert said.unread == {"small_sure": "_sure"}
    hint = "Not read: small_sure. If it says how sure the model is, give the score suffix '_sure'."
    assert str(said).splitlines()[-1] == hint
    assert found.unread == replay(other, MODELS, PRICES, score_suffix="_sure", orders=1).unread == {}
    assert " wrong " in str(found)


def test_the_truth_changes_no_decision(frame, found):
    other = frame.assign(truth=frame["truth"].to_numpy()[::-1])
    again = replay(other, MODELS, PRICES, group="kind", truth="truth", orders=2)
    assert again.promise.spent == found.promise.spent
    assert again.promise.errors != found.promise.errors


def test_tokens_are_counted_request_by_request(frame):
    data = replay(frame, MODELS, [0.1, 2.0], tokens_suffix=".tokens", orders=1)
    assert data.reference_alone == pytest.approx(2.0 * frame["large.tokens"].sum())
    assert data.alone[0].spent == pytest.approx(0.1 * frame["small.tokens"].sum())


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_all_kinds_of_files_say_the_same(frame, ending, tmp_path, found):
    path = tmp_path / f"log.{ending}"
    text = frame.assign(
        small=frame["small"].map("label {}".format), large=frame["large"].map("label {}".format)
    )
    text = text.drop(columns="truth")
    if ending == "csv":
        text.to_csv(path, index=False)
    elif ending == "parquet":
        text.to_parquet(path)
    else:
        text.to_json(path, orient="records", lines=True)
    arguments = [
        "replay",
        str(path),
        "--models",
        "small,large",
        "--prices",
        "1,20",
        "--group",
        "kind",
        "--json",
    ]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    data = json.loads(ran.stdout)
    assert data["spent"] == pytest.approx(found.promise.spent)
    assert data["differ"] == found.promise.differ


def test_the_page(found, tmp_path):
    text = found.save(tmp_path / "deep" / "er").read_text()
    assert found.headline().split(":")[0] in text.replace("<em>", "").replace("</em>", "")
    assert "<script" not in text
    for way in found.ways():
        assert all(part in text for part in way.name.split(", "))  # the second stands below the first
    assert "Money against agreement" in text
    assert f"Live it would have estimated {100 * found.promise.differ_estimate:.1f}&nbsp;%" in text
    assert "Cascade([call_1, call_2], agree=0.95, reference=&#x27;large&#x27;" in text


def test_the_page_says_every_limit(frame):
    text = page_of(replay(frame, MODELS, PRICES, orders=1, budget=9.0))
    assert "budget = 9000   # for 1000 requests" in text
    assert "budget=9, reference=" in text


@pytest.mark.parametrize("limit", [{"budget": 9.0}, {"error_cost": 60.0}, {"agree": 0.9}], ids=str)
def test_limits(frame, limit):
    found = replay(frame, MODELS, PRICES, orders=1, **limit)
    assert found.limit == "".join(f"{name} = {value:g}" for name, value in limit.items())
    if "budget" in limit:
        assert found.promise.spent <= 9.0 * 1500 + 50 * 20.0


def test_few_requests_and_hopeless_models_get_another_headline(frame):
    few = replay(frame[:45], MODELS, PRICES, orders=1)
    assert few.headline().startswith("45 requests are too few: 5% more, by their order.")
    assert replay(frame[:400], MODELS, PRICES, orders=1).headline().startswith("Yes.")  # in every order
    useless = frame.assign(small=np.random.default_rng(1).integers(0, 3, size=1500)).drop(
        columns="small.score"
    )
    hopeless = replay(useless, MODELS, PRICES, orders=1).headline()
    assert hopeless.startswith("No. small differs from large in 6")
    assert "of the requests, nothing tells where" in hopeless
    assert "finding out would have cost" in hopeless
    for rows in (1, 1500):
        dear = replay(frame[:rows], MODELS, [20.0, 20.0], orders=1)
        assert dear.headline() == "No. No other model is cheaper than large."
    assert replay(frame[:1], MODELS, PRICES, orders=1).headline().startswith("1 request is too few: 5% more,")


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.drop(columns="large"), {}, "no column 'large'; it has small"),
        (lambda f: f[:0], {}, "at least one row"),
        (lambda f: f.assign(small=f["small"].where(f.index != 7)), {}, "'small' is empty in row 7"),
        (lambda f: f.assign(small=f["small"].astype(str)), {}, "holds text, 'large' holds numbers"),
        (lambda f: f.assign(small=["x", *f["small"][1:]]), {}, "answers of one kind"),
        (lambda f: f.assign(**{"small.score": "high"}), {}, "must hold numbers"),
        (lambda f: f, {"reference": "huge"}, "reference must be one of small, large, got 'huge'"),
        (lambda f: f, {"prices": [1.0]}, "prices must be 2 numbers"),
        (lambda f: f, {"prices": ["1", "20"]}, "prices must be 2 numbers"),
        (lambda f: f, {"prices": [1.0, -1.0]}, "prices must be 2 numbers from 0 to 1e\\+15"),
        (lambda f: f, {"prices": [1.0, 1e308]}, "prices must be 2 numbers from 0 to 1e\\+15"),
        (lambda f: pd.concat([f, f[["small"]]], axis=1), {}, "must have one column 'small', it has 2"),
        (
            lambda f: f.assign(**{"small.tokens": -3}),
            {"tokens_suffix": ".tokens"},
            "'small.tokens' must hold numbers >= 0, got -3 in row 0",
        ),
        (lambda f: f, {"prices": [0.0, 0.0]}, "prices must be above 0 for the reference, large, got"),
        (lambda f: f, {"models": ["small"]}, "at least two columns"),
        (lambda f: f, {"models": ["small", "small"]}, "different columns"),
        (lambda f: f, {"agree": 1.0}, "agree must be below 1"),
        (lambda f: f, {"truth": "gold"}, "truth: the log has no column 'gold'"),
        (lambda f: f, {"group": "gold"}, "group: the log has no column 'gold'"),
        (lambda f: f, {"tokens_suffix": ".used"}, "tokens: the log has no column 'small.used'"),
        (lambda f: f, {"agree": 0.9, "budget": 3.0}, "budget must stand alone"),
        (lambda f: f, {"seed": -1}, "seed must be an integer >= 0, got -1"),
        (lambda f: f, {"seed": "x"}, "seed must be an integer >= 0, got 'x'"),
        (
            lambda f: f.rename(columns={"small": 0, "large": 1}),
            {"models": [0, 1], "reference": 2},
            "reference must be one of 0, 1, got 2",
        ),
    ],
)
def test_bad_logs_get_one_line(frame, change, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        replay(change(frame), **{"models": MODELS, "prices": PRICES, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("log.txt", "a,b\n1,2\n", "must be a file that ends in .csv"),
        ("log.csv", "", "is not a table"),
        ("log.jsonl", "{", "is not a table"),
        ("log.json", '[{"a": 1, "b": 1}]', "line 1 must be an object, {...}, got [{'a': 1, 'b': 1}]"),
        ("none.csv", None, "cannot be read"),
    ],
)
def test_bad_files_get_one_line(tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    ran = CliRunner().invoke(app, ["replay", str(tmp_path / name), "--models", "a,b", "--prices", "1,2"])
    assert ran.exit_code != 0
    assert words in " ".join(str(part) for part in (ran.output, ran.exception))


@pytest.mark.slow
def test_a_hundred_thousand_rows_in_half_a_minute():
    import time

    rng = np.random.default_rng(1)
    hard, answer = rng.random(100_000), rng.integers(0, 5, 100_000)
    table = {}
    for k in range(5):
        differs = rng.random(100_000) < np.clip(hard * (0.6 - 0.15 * k) - 0.1, 0, 1)
        table[f"m{k}"], table[f"m{k}.score"] = np.where(differs, (answer + 1) % 5, answer), 1.0 - hard
    replay(log(200), MODELS, PRICES, orders=1)  # compile
    start = time.process_time()
    replay(pd.DataFrame(table), [f"m{k}" for k in range(5)], [1, 2, 4, 8, 20])
    assert time.process_time() - start < 30.0 * pace()


def test_a_currency_stands_wherever_there_is_money(tmp_path):
    hard = np.arange(2000) % 5 == 0
    log = pd.DataFrame({"small": hard.astype(int), "small.score": 1.0 - hard, "large": 0})
    found = replay(log, models=["small", "large"], prices=[1, 20], currency="EUR", orders=1)
    assert " EUR instead of 40,000 EUR: " in found.headline()
    assert "EUR" in str(found).splitlines()[2].split()
    page = found.save(tmp_path).read_text()
    assert "<th>EUR</th>" in page
    assert "20,000,000 EUR" in page  # for a million
    assert "EUR" not in str(replay(log, models=["small", "large"], prices=[1, 20], orders=1))
    with pytest.raises(ValueError, match="currency must be a text such as USD, got 5"):
        replay(log, models=["small", "large"], prices=[1, 20], currency=5)


def codes(given, **more):
    """Return the outputs that a log is read as."""
    return read_log(given, MODELS, PRICES, ".score", None, None, None, **more).outputs


def test_answers_are_the_same_only_if_they_are_equal_to_the_last_digit_and_character():
    for small, large in ((2**53, 2**53 + 1), ("a", "a\0"), ("", " ")):
        assert np.diff(codes(pd.DataFrame({"small": [small, large], "large": [large, large]}))).tolist() != [
            [0],
            [0],
        ]
    for small, large in (
        ("int64", "uint64"),
        ("Int64", "uint64"),
        ("int64", "float64"),
        ("float64", "Int64"),
    ):
        given = pd.DataFrame({"small": [2**53, 7], "large": [2**53, 7]}).astype(
            {"small": small, "large": large}
        )
        given.loc[0, "small" if small != "float64" else "large"] += 1  # a float cannot hold it
        found = codes(given)
        assert (found[:, 0] == found[:, 1]).tolist() == [False, True]
    for kind in (object, "category", "Int64"):
        assert codes(pd.DataFrame({"small": [1, 2], "large": [1, 1]}).astype(kind)).tolist() == [
            [0, 0],
            [1, 0],
        ]


def test_columns_may_be_called_by_numbers(frame, found):
    other = frame.rename(columns={"small": 0, "large": 1, "small.score": "0.score"})
    again = replay(other, [0, 1], PRICES, group="kind", reference=1, orders=2)
    assert (again.models, again.reference) == (("0", "1"), "1")
    assert again.promise.spent == found.promise.spent
    assert replay(other.rename(columns={"0.score": "0_sure"}), [0, 1], PRICES, orders=1).unread == {
        "0_sure": "_sure"
    }


def test_the_truth_may_stand_in_a_column_called_by_a_number():
    given = pd.DataFrame({0: [1, 1, 2], "small": [1, 2, 2], "large": [1, 1, 1]})
    found = read_log(given, MODELS, PRICES, ".score", None, 0, None)
    assert found.wrong.tolist() == [[False, False], [True, False], [False, True]]
    with pytest.raises(
        ValueError, match="column 0 holds text, 'small' holds numbers: they could never agree"
    ):
        read_log(given.astype({0: str}), MODELS, PRICES, ".score", None, 0, None)


def test_one_long_answer_does_not_make_all_of_them_long():
    """Ten thousand times a million characters would be 40 GB."""
    answers = ["yes"] * 10_000
    found = codes(pd.DataFrame({"small": ["x" * 1_000_000, *answers[1:]], "large": answers}))
    assert (found[:, 0] != found[:, 1]).sum() == 1


def test_files_as_others_write_them(tmp_path):
    lines = tmp_path / "log.jsonl"
    row = {"small": "one\u2028two\x85", "large": "one", "small.score": None}
    lines.write_text(json.dumps(row, ensure_ascii=False) + "\n\n", encoding="utf-8-sig")
    assert codes(read_frame(lines)).shape == (1, 2)
    lines.write_text('{"small": 1}\n{"small": \n')
    with pytest.raises(ValueError, match="line 2: "):
        read_frame(lines)
    table = tmp_path / "log.csv"
    table.write_text("small,large,small.score\n" + "1,1,nan\n" * 300_000 + "N/A,N/A,-inf\n")
    read = read_log(read_frame(table), MODELS, PRICES, ".score", None, None, None)
    assert read.outputs[[0, -1]].tolist() == [[0, 0], [1, 1]]
    assert np.isnan(read.scores[0]).all()
    assert read.scores[-1, 0] == -np.finfo(float).max  # the order alone counts
    table.write_text("small,small,large\n1,2,2\n")
    with pytest.raises(ValueError, match="must have one column 'small', it has 2"):
        read_frame(table)

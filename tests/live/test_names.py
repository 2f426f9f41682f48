"""Names and a currency, wherever a live object speaks; without them the texts are as before."""

import re

import pytest

from weakfeedback import Allocator, Cascade, ContextualCascade, Player, Router
from weakfeedback.live import FeedbackConflict, Scored

NAMES = ["rule", "small", "large"]
NUMBERED = re.compile(r"\b(stage|model)s? \d", re.IGNORECASE)


def cascade(**more):
    made = Cascade([lambda x: x > 2, lambda x: x > 3, lambda x: x > 3], [1, 4, 25], 100, seed=0, **more)
    made.speak(NAMES, "EUR")
    return made


def check(text):
    assert not NUMBERED.search(text), text
    assert any(name in text for name in NAMES)


def check_money(text, count=1):
    assert len(re.findall(r"\d EUR", text)) >= count, text


def test_a_cascade():
    made = cascade()
    answers = [made(x % 10) for x in range(200)]
    for text in (
        str(made.report()),
        made.explain(answers[-1].id),
        str(made.audit(range(20), lambda x: x > 3)),
    ):
        check(text)
        check_money(text)
    told = made.report().to_dict()
    assert (told["names"], told["currency"]) == (NAMES, "EUR")
    made.warm_start([[True, True, True]] * 2000)
    assert str(made.certificate()).startswith("rule is optimal for certain")


def test_a_cascade_that_decides_after_every_answer():
    sure = lambda x: Scored(x > 2, abs(x - 2.5))  # noqa: E731
    made = Cascade([sure, lambda x: x > 3, lambda x: x > 3], [1, 4, 25], 100, policy="USS-A", seed=0)
    made.speak(NAMES, "EUR")
    answers = [made(x % 10) for x in range(60)]
    check_money(str(made.report()), 3)
    for text in (str(made.report()), *(made.explain(one.id) for one in answers)):
        check(text)
    elsewhere = Cascade(3, [1, 4, 25], 100, policy="USS-A", seed=0)
    elsewhere.speak(NAMES)
    id = elsewhere.begin().id
    elsewhere.tell(id, Scored("a", 0.1), stage=0)
    with pytest.raises(FeedbackConflict, match="rule of decision"):
        elsewhere.tell(id, Scored("b", 0.1), stage=0)


def test_a_router():
    made = Router([lambda x: x > 2, lambda x: x > 3, lambda x: x > 3], [1, 4, 25], 100)
    made.speak(NAMES, "EUR")
    answers = [made(x % 10) for x in range(200)]
    for text in (
        str(made.report()),
        made.explain(answers[-1].id),
        str(made.audit(range(20), lambda x: x > 3)),
    ):
        check(text)
        check_money(text)


def test_a_cascade_with_context():
    made = ContextualCascade(
        [lambda x: x[0] > 0, lambda x: x[1] > 0, lambda x: x[1] > 0], [1, 4, 25], 100, seed=0
    )
    made.speak(NAMES, "EUR")
    answers = [made([(x % 7) / 7 - 0.5, (x % 5) / 5 - 0.5], [(x % 7) / 7]) for x in range(60)]
    for text in (str(made.report()), made.explain(answers[-1].id)):
        check(text)


def test_players_and_allocators():
    player = Player(3, names=["c1", "c6", "c11"], seed=0)
    player.choose()
    assert [line.split()[0] for line in str(player.report()).splitlines()[-3:]] == ["c1", "c6", "c11"]
    allocator = Allocator(2, 10, names=["north", "south"], seed=0)
    assert allocator.decide().amounts.keys() == {"north", "south"}
    with pytest.raises(ValueError, match="names must be 2 different texts, one per arm"):
        Allocator(2, 10, names=["north"])


@pytest.mark.parametrize("make", [Cascade, Router, ContextualCascade])
def test_a_journal_is_opened_again_with_names(make, tmp_path):
    given = [lambda x: True, lambda x: True], [1, 4], 100
    with make.open(tmp_path / "j.db", *given, names=["small", "large"]) as first:
        assert "small" in str(first.report())
    with make.open(tmp_path / "j.db", *given, names=["tiny", "large"]) as again:
        assert "tiny" in str(again.report())
    with make.open(tmp_path / "j.db", *given) as last:
        assert "large" not in str(last.report())
        last.speak(currency="EUR")
        last.speak(["tiny", "large"])
        assert "4 EUR" in str(last.report())


@pytest.mark.parametrize("names", [["a", "b"], ["a", "a", "b"], ["a", "b", 3], ["a", "b", ""], "abc"])
def test_names_that_are_none(names):
    with pytest.raises(ValueError, match="names must be 3 different texts, one per stage"):
        cascade().speak(names)
    with pytest.raises(ValueError, match="currency must be a text such as USD"):
        cascade().speak(currency="")

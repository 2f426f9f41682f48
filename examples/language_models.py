"""Three language models of rising price: what does learning where to stop cost, against always asking one of them?

The models are fakes: a question has a difficulty, and a model answers it rightly if its skill exceeds it, give or
take. Replace ``ask`` by your calls. Money and waiting are both counted, in dollars.
"""

import random

from weakfeedback import Cascade, Costed

NAMES = ["small", "medium", "large"]
SKILL = {"small": 0.55, "medium": 0.85, "large": 0.95}
PRICE = {"small": 0.0002, "medium": 0.003, "large": 0.03}  # dollars per call
SECONDS = {"small": 0.4, "medium": 1.2, "large": 5.0}
WAITING, MISTAKE = 0.001, 0.10  # dollars per second, dollars per wrong answer

dice = random.Random(0)


def ask(name, question):
    """A fake call: text, dollars, seconds."""
    truth, difficulty = question
    right = dice.gauss(SKILL[name], 0.1) > difficulty
    text = truth if right else dice.choice("abcd")
    return f" {text.upper()} \n", PRICE[name] * dice.uniform(0.5, 1.5), SECONDS[name] * dice.uniform(0.5, 1.5)


def stage(name):
    """A stage of the cascade: the answer in one spelling, and what this very call cost."""

    def call(question):
        text, dollars, seconds = ask(name, question)
        return Costed(text.strip().lower(), dollars + WAITING * seconds)

    return call


expected = [PRICE[name] + WAITING * SECONDS[name] for name in NAMES]
cascades = {"learned stop": Cascade([stage(n) for n in NAMES], expected, error_cost=MISTAKE, seed=0)}
for name in NAMES:  # asking one model alone: a cascade of one stage
    cascades[f"always {name}"] = Cascade(
        [stage(name)], [expected[NAMES.index(name)]], MISTAKE, "Fixed", arm=0
    )

print("5000 questions          calls and waiting   wrong answers   in all")
for label, cascade in cascades.items():
    paid = wrong = 0.0
    for _ in range(5000):
        question = (dice.choice("abcd"), dice.random())
        answer = cascade(question)
        paid += answer.cost
        wrong += answer.label != question[0]  # known to this script, not to the cascade
    print(f"{label:22s} {paid:13.2f} dollars {wrong:15.0f} {paid + MISTAKE * wrong:8.2f}")
print("\nWhere the learned one stopped, and how often its models disagreed:")
print(cascades["learned stop"].report())

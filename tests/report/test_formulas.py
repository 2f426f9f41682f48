"""Formulas within words become MathML; words stay words, and whatever is hostile stays harmless."""

import re
from xml.etree import ElementTree

import pytest

from weakfeedback.report.formulas import set_formulas
from weakfeedback.reproduce.registry import chapters


def formulas_of(words):
    """The formulas that are set, as plain text in the order of reading."""
    found = re.findall(r"<math>.*?</math>", str(set_formulas(words)))
    return ["".join(ElementTree.fromstring(one).itertext()) for one in found]


@pytest.mark.parametrize(
    ("words", "formulas"),
    [
        ("bounded as 3 (3 alpha K log f(T))^{1/3} T^{2/3} [...] for any", ["3(3αKlogf(T))1/3T2/3"]),
        ("as C_j - C_i* increases, the regret", ["Cj−Ci∗"]),
        ("the optimal allocation is a* = (0, 0.55, 0.45) with no", ["a∗=(0,0.55,0.45)"]),
        (
            "with probability at least 1 - 2 delta / K^2: |theta_hat - theta|_V <= alpha",
            ["1−2δ/K2", "|θ^−θ|V≤α"],
        ),
        ("T_CP <= N(ceil(log_2(K)) + 1), C_CP <= (N - 1)(ceil(log_2 K) + 1)", 2),
        ("O(sqrt(K T ln T)) of P_SD", ["O(KTlnT)", "PSD"]),
        ("in T = 10 000 rounds", ["T=10 000"]),
        ("arm 2 is optimal by a xi of .007", ["ξ"]),
        ("a policy, I think, and A and B-side of 3 runs < or more", []),
        ("finds (eps,delta)-optimal allocation", []),
        ("an open bracket (theta_i and more", 0),
        ("USS-TS on pima-2, CTS-BETA and x = ", []),
    ],
)
def test_formulas_are_found_and_words_left_alone(words, formulas):
    found = formulas_of(words)
    assert (len(found) if isinstance(formulas, int) else found) == formulas


def test_indices_and_powers_stand_where_they_belong():
    assert str(set_formulas("V_ij^t")) == (
        "<math><msubsup><mi>V</mi><mrow><mi>i</mi><mi>j</mi></mrow><mi>t</mi></msubsup></math>"
    )
    assert str(set_formulas("sqrt(T)")) == "<math><msqrt><mi>T</mi></msqrt></math>"


@pytest.mark.parametrize(
    "words", ["<script>x_1</script>", "x_{<b>}", "a_1 & b_2", "((((x_1", "x_^_1", "_", "theta_"]
)
def test_hostile_words_stay_harmless(words):
    text = str(set_formulas(words))
    assert ElementTree.fromstring(f"<p>{text}</p>") is not None
    assert not re.search(r"<(?!/?m)", text)


def test_every_claim_of_the_thesis_can_be_read_and_many_have_formulas():
    set_ones = 0
    for chapter in chapters():
        for claim in chapter.claims:
            for words in (claim.words, claim.ours, claim.remains, claim.why):
                text = str(set_formulas(words))
                ElementTree.fromstring(f"<p>{text}</p>")
                set_ones += "<math>" in text
                assert not re.search(r"\w[_^][\w({]", re.sub(r"<math>.*?</math>", "", text)), words
    assert set_ones > 40

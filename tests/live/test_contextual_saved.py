"""A cascade with context: saving and loading, the bounded history, reports and explanations."""

import json

import numpy as np
import pytest
from tests.live.test_contextual import BOUND, CASES, CONTEXTS, IDS, LABELS, STAGES, make, snapshot

from weakfeedback.contextual import QuadraticFeatures, UssPd, UssPdRidge
from weakfeedback.live import ContextualCascade, StateError, UnknownDecision, storage

RIDGE = "USS-PD-lambdaI"


def drive(cascade, rows, waiting):
    """Calls, late feedback, cancellations: return everything that can be seen."""
    seen = []
    for row in rows:
        x = CONTEXTS[row]
        if row % 2:
            seen.append(cascade(x))
            continue
        decision = cascade.decide(x)
        seen.append(decision)
        waiting.append((decision, row))
        if len(waiting) > 3:
            decision, old = waiting.pop(row % 3)
            if row % 7 == 0:
                cascade.cancel(decision.id)
            else:
                seen.append(cascade.feedback(decision.id, LABELS[old, : decision.arm + 1]))
    return seen


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_stopping_in_the_middle_makes_no_difference(tmp_path, name, options):
    through, stopped = (make(name, seed=2, keep=100, **options) for _ in range(2))
    waiting, waiting_too = [], []
    path = tmp_path / "cascade.json"
    stopped.save(path)  # before the first context
    stopped = ContextualCascade.load(path, STAGES)
    for start in range(0, 200, 50):
        rows = range(start, start + 50)
        assert drive(through, rows, waiting) == drive(stopped, rows, waiting_too)
        stopped.save(path)
        stopped = ContextualCascade.load(path, STAGES)
        assert stopped.pending == through.pending
        assert len(stopped.pending) > 0
    assert snapshot(stopped) == snapshot(through)
    assert str(stopped.report()) == str(through.report())
    if name == RIDGE:
        assert through.report().let_go > 0


def test_code_is_given_again_and_the_quadratic_map_need_not_be(tmp_path):
    path = tmp_path / "c.json"
    fitted = QuadraticFeatures(2.0).fit([[0.0, 0.1], [1.0, 0.0], [0.0, 0.5], [0.0, 0.9]])
    cascade = make(RIDGE, features=fitted)
    cascade(CONTEXTS[0])
    cascade.save(path)
    loaded = ContextualCascade.load(path, STAGES)
    assert [loaded(x) for x in CONTEXTS[1:20]] == [cascade(x) for x in CONTEXTS[1:20]]
    assert ContextualCascade.load(path, STAGES, features=fitted).rounds == 1  # the same may be given again
    with pytest.raises(ValueError, match="features must be given if and only if"):
        ContextualCascade.load(path, STAGES, features=lambda X: X)

    def own(X):
        return X / 2

    cascade = make(RIDGE, features=own)
    cascade(CONTEXTS[0])
    cascade.save(path)
    with pytest.raises(ValueError, match="features must be given if and only if"):
        ContextualCascade.load(path, STAGES)
    loaded = ContextualCascade.load(path, STAGES, features=own)
    assert [loaded(x) for x in CONTEXTS[1:20]] == [cascade(x) for x in CONTEXTS[1:20]]


def test_a_policy_given_as_an_object_is_given_again_and_may_have_grown(tmp_path):
    path = tmp_path / "c.json"
    costs = [0.01, 0.05, 0.3]
    cascade = make(UssPd(costs, 6, forced=5))
    for x in CONTEXTS[:100]:  # more than the 64 rows that a fresh policy has room for
        cascade(x)
    cascade.save(path)
    with pytest.raises(ValueError, match="pass policy=, a fresh UssPd"):
        ContextualCascade.load(path, STAGES)
    loaded = ContextualCascade.load(path, STAGES, policy=UssPd(costs, 6))
    assert (loaded.policy.t, loaded.policy.forced) == (100, 5)
    assert [loaded(x) for x in CONTEXTS[:20]] == [cascade(x) for x in CONTEXTS[:20]]
    with pytest.raises(StateError):
        ContextualCascade.load(path, STAGES, policy=UssPd(costs, 7))


def test_forged_files_are_refused(tmp_path):
    path = tmp_path / "c.json"
    cascade = make(RIDGE)
    drive(cascade, range(80), [])
    cascade.save(path)
    good = storage.read(path, "ContextualCascade")
    fields = good["core"]["fields"]
    assert fields["arms"]["shape"] == [128]
    for change in (
        lambda body: body["contexts"].update(inputs=3, dimension=10),
        lambda body: body["contexts"].update(dimension=0),
        lambda body: body["contexts"].update(inputs=-1),
        lambda body: body["contexts"].pop("inputs"),
        lambda body: body["contexts"].pop("map"),
        lambda body: body["contexts"]["map"].update(bound=0),
        lambda body: body["contexts"]["map"].update(inputs=2),
        lambda body: body["contexts"]["map"].update(columns=[1]),
        lambda body: body.update(keep=1),
        lambda body: body.update(keep="x"),
        lambda body: body["core"]["ledger"]["pending"][0].__setitem__(1, 2),
        lambda body: body["core"]["ledger"]["pending"][0][1].update(arm=3),
        lambda body: body["core"]["ledger"]["pending"][0][1].update(phi=[0.1]),
        lambda body: body["core"]["fields"].update(t=1000),
        lambda body: body["core"]["fields"].update(arms=storage.encode(np.zeros(256, dtype=np.int64))),
        lambda body: body["core"]["fields"].update(arms=storage.encode(np.zeros(32, dtype=np.int64))),
        lambda body: body["core"]["fields"].update(past=storage.encode(np.zeros((128, 7)))),
    ):
        body = json.loads(json.dumps(good))
        change(body)
        storage.write(path, "ContextualCascade", body)
        with pytest.raises(StateError):
            ContextualCascade.load(path, STAGES)


# -- the bounded history


def stream(rounds, seed=0):
    """Features, and labels of which stages 0 and 1 differ by a logistic law, with stage 2 now and then."""
    rng = np.random.default_rng(seed)
    phi = BOUND(rng.uniform(-1, 1, size=(rounds, 2)))
    differ = rng.random(rounds) < 1 / (1 + np.exp(-phi @ [-1, 8, 0, 4, 0, 2.0]))
    return phi, np.stack([differ, np.zeros(rounds, bool), rng.random(rounds) < 0.1], axis=1).astype(int)


@pytest.mark.parametrize("kind", [UssPd, UssPdRidge])
def test_older_observations_as_a_quadratic_hardly_change_the_estimate(kind):
    costs, rng = [0.01, 0.05, 0.3], None
    whole, limited = kind(costs, 6), kind(costs, 6, keep=300)
    furthest, same = 0.0, 0
    for t, (phi, labels) in enumerate(zip(*stream(800))):
        arm = whole.select(phi, rng)
        same += limited.select(phi, rng) == arm
        for policy in (whole, limited):
            policy.update(phi, arm, labels[: arm + 1], rng)
        if t == 298:  # nothing was let go yet
            assert np.allclose(whole.theta, limited.theta, rtol=1e-8, atol=1e-10)
            assert same == 299
        if t > 400:
            for m in range(3):
                error = np.sqrt(phi @ whole.Q[m] @ phi)  # the standard error of the logit
                furthest = max(furthest, abs((limited.theta[m] - whole.theta[m]) @ phi) / error)
    assert limited.gone > 0
    assert limited.t + limited.gone == whole.t == 800
    assert np.array_equal(limited.n, whole.n)
    assert np.allclose(limited.V, whole.V)
    assert limited.bonus(0) == whole.bonus(0)
    # What the quadratic adds is small beside what is not known anyway.
    assert furthest < 0.5
    assert same > 794


def test_the_quadratic_has_the_gradient_and_hessian_of_what_was_let_go():
    limited = UssPdRidge([0.01, 0.05, 0.3], 6, ridge=0.5, keep=100)
    phi, labels = stream(100)
    for row in range(99):
        limited.update(phi[row], 2, labels[row], None)
    before = limited.anchor.copy()
    limited.let_go(99)
    for m, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        p = 1 / (1 + np.exp(-phi[:99] @ before[m]))
        y = labels[:99, i] != labels[:99, j]
        gradient, H = np.zeros(6), np.zeros((6, 6))
        limited.evaluate(m, before[m], gradient, H, True)
        assert np.allclose(gradient, (y - p) @ phi[:99] - 0.5 * before[m])
        assert np.allclose(H, (phi[:99].T * (p * (1 - p))) @ phi[:99] + 0.5 * np.eye(6))
    assert (limited.t, limited.gone, limited.past.any(), limited.label.any()) == (0, 99, False, False)


def test_full_fits_reach_the_maximum_of_what_is_kept_and_the_quadratic():
    """Features grow thirtyfold and effects turn round, so that Newton's steps must be cut when much has been let go."""
    rng = np.random.default_rng(1)
    phi = np.column_stack([np.ones(600), rng.uniform(-1, 1, (600, 3))])
    phi[400:] *= 30
    effects = np.where(np.arange(600)[:, None] < 400, 1, -1 / 30) * [0.0, 4.0, -4.0, 2.0]
    labels = rng.random(600) < 1 / (1 + np.exp(-np.sum(phi * effects, axis=1)))
    limited = UssPdRidge([0.1, 0.3], 4, keep=100)
    left, wrong = [], []
    for row, label in zip(phi, labels.astype(int), strict=True):
        limited.update(row, 1, np.array([0, label]), None)
        kept = limited.weight.copy()
        gradient, H = np.zeros(4), np.zeros((4, 4))
        limited.evaluate(0, limited.theta[0], gradient, H, True)
        limited.weight = kept  # which is the only field that it writes
        step = np.linalg.solve(H, gradient)
        left.append(gradient @ step)
        kept_rows = limited.past[: limited.t]
        near, exact = (
            1 / (1 + np.exp(-kept_rows @ theta)) for theta in (limited.theta[0], limited.theta[0] + step)
        )
        wrong.append(np.abs(near - exact).max(initial=0.0))
    assert limited.gone > 400
    assert max(wrong) < 3e-3
    assert max(left) < 1e-4  # 8 tau^4 n with n = 80; without the quadratic it is 12


def test_memory_and_files_do_not_grow_with_the_rounds(tmp_path):
    cascade = make(RIDGE, [lambda x: 0, lambda x: 0, lambda x: 1], keep=100)
    sizes = []
    rng = np.random.default_rng(0)
    for _ in range(4):
        for x in rng.uniform(-0.9, 0.9, size=(150, 2)):
            cascade(x)
        cascade.save(tmp_path / "c.json")
        sizes.append((tmp_path / "c.json").stat().st_size - 23 * cascade.rounds)  # digests of answers
        assert cascade.policy.t < 100
        assert len(cascade.policy.arms) == 128
    assert max(sizes) < 1.1 * min(sizes)
    report = cascade.report()
    assert report.kept + report.let_go == cascade.rounds == 600
    unbounded = make(RIDGE, keep=None)
    unbounded.decide(CONTEXTS[0])
    assert (cascade.policy.keep, unbounded.policy.keep) == (100, 0)


# -- words


def test_the_report_says_what_it_is_of():
    cascade = make("USS-PD", forced=30)
    assert cascade.report().inputs == cascade.report().features == 0
    for x in CONTEXTS[:20]:
        cascade(x)
    report = cascade.report()
    assert (report.rounds, report.inputs, report.features, report.kept) == (20, 2, 6, 20)
    assert report.learning is False
    assert report.disagreement[0, 1] == (LABELS[:20, 0] != LABELS[:20, 1]).mean()
    assert str(report).startswith("Contextual cascade of 3 stages, USS-PD: 20 rounds learned")
    assert "still in the first rounds" in str(report)
    for x in CONTEXTS[20:60]:
        cascade(x)
    assert cascade.report().learning is True
    assert "first rounds" not in str(cascade.report())


def test_an_explanation_weighs_the_extra_cost_at_this_context():
    cascade = make("USS-PD", forced=100)
    for x in CONTEXTS[:150]:
        cascade(x)
    assert "Nothing is estimated yet" in cascade.explain(1)
    x = next(x for x in CONTEXTS[150:] if cascade.decide(x).arm == 1)
    decision = cascade.decide(x)
    phi, policy = BOUND([x])[0], cascade.policy
    share = 1 / (1 + np.exp(-phi @ policy.theta[policy.pair[1, 2]]))
    lines = cascade.explain(decision.id).splitlines()
    assert lines[0] == f"Decision {decision.id}: stop at stage 1 of 0 to 2 (USS-PD)."
    assert lines[1].startswith("Not stage 0: going on to stage ")
    assert lines[1].endswith("often enough that it may pay.")
    assert lines[2].startswith("Stage 2 not called: going on to stage 2 costs 25 more")
    assert f"stages 1 and 2 are estimated to differ {100 * share:.1f} % of the time" in lines[2]
    assert lines[2].endswith("too seldom to pay.")
    with pytest.raises(UnknownDecision):
        cascade.explain(10_000)

"""A cascade that looks at the sample first: easy ones stop early, hard ones go on."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from weakfeedback import Cascade, ContextualCascade
from weakfeedback.contextual import QuadraticFeatures

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit(X[::2]).transform(X)
train, rest = slice(0, None, 2), slice(1, None, 2)
columns = [[0], [0, 1, 2, 3], list(range(30))]  # the radius; four means; everything
models = [LogisticRegression().fit(X[train][:, c], y[train]) for c in columns]
stages = [lambda x, m=m, c=c: int(m.predict(x[None, c])[0]) for m, c in zip(models, columns, strict=True)]
costs = {"stage_costs": [1, 4, 10], "error_cost": 100}


def context(x):
    """What is known before any test: the radius, cut to [-1, 1]."""
    return np.clip(x[:1] / 2.0, -1.0, 1.0)


plain = Cascade(stages, **costs, seed=0)
looking = ContextualCascade(stages, **costs, features=QuadraticFeatures(1.0), seed=0, forced=60)
samples, truth = X[rest].repeat(4, axis=0), y[rest].repeat(4)
arms = np.array([[plain(x).arm, looking(x, context(x)).arm] for x in samples])

late = slice(len(samples) // 2, None)  # after learning
errors = np.column_stack([[stage(x) for x in samples[late]] != truth[late] for stage in stages])
price = np.cumsum(costs["stage_costs"])
for k, name in enumerate(("the same stop for all", "the stop depends on x")):
    chosen = arms[late, k]
    total = price[chosen] + 100 * errors[np.arange(len(chosen)), chosen]
    shares = [f"{np.mean(chosen == arm):4.0%}" for arm in range(3)]
    print(f"{name}: stops {' '.join(shares)}, total cost per sample {total.mean():5.2f}")
for name, low, high in (("small", -9, -0.5), ("middling", -0.5, 0.5), ("large", 0.5, 9)):
    inside = (samples[late, 0] > low) & (samples[late, 0] <= high)
    print(f"radius {name:9s} mean stop {arms[late, 1][inside].mean():.2f}, first two differ", end=" ")
    print(f"{np.mean(errors[inside, 0] != errors[inside, 1]):.0%}")

"""A cascade of three classifiers on the breast-cancer data: which one is worth its cost, without labels?"""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from weakfeedback import Cascade

X, y = load_breast_cancer(return_X_y=True)
tests = [[1, 4], list(range(10)), list(range(30))]  # two measurements, the ten means, everything
models = [make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2, t], y[::2]) for t in tests]
stages = [lambda x, m=m, t=t: int(m.predict(x[None, t])[0]) for m, t in zip(models, tests, strict=True)]

cascade = Cascade(stages, stage_costs=[1, 4, 25], error_cost=100, seed=0)
for x in X[1::2].repeat(4, axis=0):  # the other half of the patients; y is never shown
    answer = cascade(x)  # runs as many stages as it must: answer.label, answer.cost
print(cascade.report())

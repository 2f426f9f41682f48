"""The assumptions of chapter 3 about a problem, measured on its contexts (thesis, section 3.3, assumption GLM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.contextual.arguments import pairs

if TYPE_CHECKING:
    from weakfeedback.contextual.rows import ContextRows

# Ridge per context: keeps the best model finite where disagreements are 0 or 1.
RIDGE = 1e-9


@dataclass(frozen=True)
class Assumptions:
    """The quantities that the theory bounds, measured on the contexts of a problem.

    Attributes
    ----------
    norm : float
        The largest |Phi_ij(x)|; the theory needs at most 1.
    kappa : float
        The smallest slope mu'(Phi_ij(x).theta) over the contexts and all theta within 1 of theta_ij.
    lambda_sigma : float
        The smallest eigenvalue of the mean of Phi_ij Phi_ij' over the contexts; the theory needs it above 0.
    misfit, mean_misfit : float
        The largest and the mean of |mu(Phi_ij(x).theta_ij) - p_ij(x)| over contexts and pairs, with theta_ij the
        best logistic model (the one with the largest expected likelihood); 0 if the problem is realizable.
    parameters : array, shape (K(K-1)/2, d')
        theta_ij in the order (0, 1), (0, 2), ..., (1, 2), ...
    """

    norm: float
    kappa: float
    lambda_sigma: float
    misfit: float
    mean_misfit: float
    parameters: np.ndarray

    def __str__(self) -> str:
        largest = float(np.linalg.norm(self.parameters, axis=1).max(initial=0.0))
        return "\n".join(
            [
                f"largest norm of the features      {self.norm:.4g} (assumed: at most 1)",
                f"kappa, the least slope            {self.kappa:.4g} (at most 0.25)",
                f"lambda_Sigma, least eigenvalue    {self.lambda_sigma:.4g} (assumed: above 0)",
                f"misfit of the best logistic model {self.misfit:.4g} at most, {self.mean_misfit:.4g} on average",
                f"largest norm of its parameters    {largest:.4g}",
            ]
        )


def assess(problem: ContextRows) -> Assumptions:
    """Measure the assumptions on a problem of either kind."""
    from scipy.special import expit

    first, second = pairs(problem.arms)
    norm, kappa, least = 0.0, 0.25, np.inf
    thetas, misfits = [], []
    for m, (i, j) in enumerate(zip(first, second)):
        phi = problem.pair_features(m)
        target = problem.disagreement[:, i, j]
        theta = fit_logistic(phi, target, RIDGE * len(phi))
        lengths = np.linalg.norm(phi, axis=1)
        reach = np.abs(phi @ theta) + lengths
        norm = max(norm, float(lengths.max()))
        kappa = min(kappa, float((expit(reach) * expit(-reach)).min()))
        if m == 0 or problem.per_pair:
            least = min(least, float(np.linalg.eigvalsh(phi.T @ phi / len(phi))[0]))
        thetas.append(theta)
        misfits.append(np.abs(expit(phi @ theta) - target))
    table = np.array(misfits).reshape(len(first), -1)
    return Assumptions(
        norm=norm,
        kappa=kappa,
        lambda_sigma=max(float(least), 0.0),
        misfit=float(table.max(initial=0.0)),
        mean_misfit=float(table.mean()) if table.size else 0.0,
        parameters=np.array(thetas).reshape(len(first), problem.pair_dimension),
    )


def fit_logistic(phi: np.ndarray, target: np.ndarray, ridge: float, steps: int = 200) -> np.ndarray:
    """Return theta that maximises the mean log-likelihood of probabilities ``target`` minus the ridge.

    Newton's method, damped so that every step lowers the loss (as in ``weakfeedback.contextual.glm``).
    """
    from scipy.special import expit

    theta = np.zeros(phi.shape[1])
    for _ in range(steps):
        mu = expit(phi @ theta)
        gradient = phi.T @ (target - mu) - ridge * theta
        hessian = (phi * (mu * (1.0 - mu))[:, None]).T @ phi + ridge * np.eye(theta.size)
        step: Any = np.linalg.solve(hessian, gradient)
        if gradient @ step <= 1e-14 * len(phi):
            break
        change = float(np.abs(phi @ step).max())
        theta = theta + (step if change <= 1.0 else step * np.log1p(change) / change)
    return theta

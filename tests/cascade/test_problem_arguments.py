"""Wrong arguments of cascade problems are refused in one line that names them."""

import math

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback.cascade.problem import CascadeProblem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcomes": [[0, 0.5]]}, r"outcomes must be integer labels, got 0\.5"),
        ({"outcomes": [[0, math.nan]]}, r"outcomes must be integer labels, got nan"),
        ({"outcomes": [[0, math.inf]]}, r"outcomes must be integer labels, got inf"),
        ({"outcomes": [[0, 2**70]]}, r"outcomes must be integer labels, got an array of object"),
        ({"outcomes": [["a", "b"]]}, r"outcomes must be integer labels, got an array of <U1"),
        ({"outcomes": [[0, None]]}, r"outcomes must be integer labels, got None"),
        ({"outcomes": [[0, 1], [0]]}, r"outcomes must be a rectangular array of labels"),
        ({"outcomes": [0, 1]}, r"outcomes must have shape \(n, K \+ 1\).*got \(2,\)"),
        ({"outcomes": [[0], [1]]}, r"outcomes must have shape \(n, K \+ 1\).*got \(2, 1\)"),
        ({"outcomes": np.zeros((0, 3), int)}, r"outcomes must have shape \(n, K \+ 1\).*got \(0, 3\)"),
        ({"probabilities": [0.5]}, r"probabilities must be 2 finite numbers >= 0, got \[0\.5\]"),
        ({"probabilities": [1.5, -0.5]}, r"probabilities must be 2 finite numbers >= 0, got \[1\.5, -0\.5\]"),
        ({"probabilities": [math.nan, 1.0]}, r"probabilities must be 2 finite numbers >= 0"),
        ({"probabilities": [0.5, 0.4]}, r"probabilities must sum to 1 .*their sum is 0\.9"),
        ({"probabilities": [0.5, 0.5 + 2e-9]}, r"probabilities must sum to 1"),
        ({"costs": [0.1]}, r"costs must be 2 numbers, one per arm, got 1"),
        ({"costs": [0.2, 0.1]}, r"costs must be cumulative .*got \[0\.2, 0\.1\]"),
        ({"costs": [-0.1, 0.1]}, r"costs must be .*finite numbers >= 0, got \[-0\.1, 0\.1\]"),
        ({"costs": [0.1, math.inf]}, r"costs must be .*finite numbers >= 0"),
        ({"costs": "dear"}, r"costs must be .*finite numbers >= 0, got 'dear'"),
        ({"tradeoff": 0}, r"tradeoff must be a finite number > 0, got 0"),
        ({"tradeoff": math.inf}, r"tradeoff must be a finite number > 0, got inf"),
        ({"tradeoff": "1"}, r"tradeoff must be a finite number > 0, got '1'"),
        ({"tradeoff": [1.0]}, r"tradeoff must be 2 finite numbers, got \[1\.0\]"),
        ({"tradeoff": [1.0, 0.0]}, r"tradeoff must be > 0 for every arm, got \[1\.0, 0\.0\]"),
        ({"tradeoff": [1.0, math.nan]}, r"tradeoff must be 2 finite numbers"),
        ({"costs": [0.0, 1e308], "tradeoff": 10.0}, r"tradeoff \* costs must be finite"),
    ],
)
def test_wrong_arguments(change, message):
    good = {"outcomes": [[0, 0, 1], [1, 1, 1]], "probabilities": [0.5, 0.5], "costs": [0.0, 0.1]}
    CascadeProblem(**good)
    with pytest.raises(ValueError, match=message) as caught:
        CascadeProblem(**(good | change))
    assert "\n" not in str(caught.value)


test_wrong_data_sets = refusals(
    lambda truth, predictions: CascadeProblem.from_predictions(truth, predictions, [0.0, 0.1]),
    ([0, 1], [0, 1], r"truth and predictions must have shapes .*got \(2,\) and \(2,\)"),
    ([0, 1], [[0, 1]], r"truth and predictions must have shapes .*got \(2,\) and \(1, 2\)"),
    ([], np.zeros((0, 2)), r"truth and predictions must have shapes .*got \(0,\) and \(0, 2\)"),
    (np.array([], dtype=object), np.zeros((0, 2)), r"truth and predictions must have shapes .*got \(0,\)"),
    ([0, 1], np.zeros((2, 0)), r"truth and predictions must have shapes .*got \(2,\) and \(2, 0\)"),
    ([0], [["a", "b"]], r"truth and predictions must both be strings or both be numbers"),
    (["a", np.nan], [["a"], ["b"]], r"truth must be labels .*, all of one kind, got nan beside strings"),
    (["a", None], [["a"], ["b"]], r"truth must be labels .*, all of one kind, got None beside strings"),
    (["a", "b"], [["a"], [1]], r"predictions must be labels .*, all of one kind, got 1 beside strings"),
    ([0.5], [[0, 1]], r"truth must be labels that are integers, booleans or strings, got 0\.5"),
    ([1], [[0, math.nan]], r"predictions must be labels that are .*got nan"),
    ([1], [[None, 1]], r"predictions must be labels that are .*got None"),
    ([1j], [[1, 1]], r"truth must be labels that are .*got an array of complex128"),
    ([1, 2], [[1, 2], [1]], r"predictions must be a rectangular array of labels"),
)


test_wrong_bsc_arguments = refusals(
    lambda errors, slip: CascadeProblem.bsc(errors, list(range(len(errors))), slip=slip),
    ([1.2, 0.1], 0.05, r"errors must lie in \[0, 1\], got \[1\.2, 0\.1\]"),
    ([-0.2, 0.1], 0.05, r"errors must be .*finite numbers >= 0"),
    ([0.2] * 17, 0.05, r"errors must be at most 16 numbers, got 17"),
    ([0.2, 0.1], 1.5, r"slip must lie in \[0, 1\], got 1\.5"),
    ([0.2, 0.1], -0.1, r"slip must be a finite number >= 0, got -0\.1"),
    ([0.2, 0.1], 0.2, r"errors\[1\] must be from slip .*errors\[1\]=0\.1, errors\[0\]=0\.2, slip=0\.2"),
    ([0.2, 0.9], 0.05, r"errors\[1\] must be from slip .*errors\[1\]=0\.9, errors\[0\]=0\.2, slip=0\.05"),
)

"""A mistyped policy is answered with all that are accepted."""

import pytest

from weakfeedback import Cascade


@pytest.mark.parametrize(
    ("name", "near"),
    [("USSA", ": did you mean USS-A?"), ("USS-TT", ": did you mean USS-TS?"), ("zebra", "")],
)
def test_the_error_names_all_policies_of_a_cascade(name, near):
    with pytest.raises(ValueError, match="policy must be one of") as caught:
        Cascade(2, [1, 2], 10, policy=name)
    told = str(caught.value)
    assert told.endswith(f"got {name!r}{near}")
    for known in ("USS-TS", "Q-USS", "USS-A", "Agreement", "Fixed"):
        assert told.count(f" {known},") == 1
        assert Cascade(2, [1, 2], 10, policy=known.lower(), **OPTIONS.get(known, {})) is not None


OPTIONS = {"Q-USS": {"label_price": 0.1}, "Fixed": {"arm": 1}, "Agreement": {}}

"""Names of policies."""

import pytest
from tests.rig.refusals import refusals

from weakfeedback.cascade import FixedArm, UssTs, UssUcb
from weakfeedback.settings.catalog import (
    POLICIES,
    SETTINGS,
    make_policy,
    option_names,
    policy_class,
    policy_name,
)


def test_names_are_matched_without_regard_to_case():
    for setting, policies in POLICIES.items():
        for name, known in policies.items():
            for spelled in (name, name.lower(), name.upper()):
                assert policy_class(setting, spelled) is known
    assert policy_class("Cascade", "uss-ts") is UssTs


test_a_wrong_name_is_answered_with_the_right_ones = refusals(
    lambda setting, name: policy_class(setting, name),
    ("cascade", "USS-TSS", "did you mean USS-TS"),
    ("cascade", "hanawall", "did you mean Hanawal"),
    ("cascade", "zebra", "policy must be one of USS-TS, .*got 'zebra'$"),
    ("cascade", None, "got None"),
    ("casacde", "USS-TS", "setting must be one of .*did you mean cascade"),
)


def test_a_policy_is_made_with_its_options():
    assert make_policy("cascade", "uss-ucb", [0.1, 0.2], alpha=2).alpha == 2.0
    assert make_policy("cascade", "Fixed", [0.1, 0.2], arm=1).arm == 1
    with pytest.raises(ValueError, match="alpha is not an option of USS-TS, which takes: none"):
        make_policy("cascade", "USS-TS", [0.1, 0.2], alpha=2)
    with pytest.raises(ValueError, match="Fixed needs the option arm"):
        make_policy("cascade", "Fixed", [0.1, 0.2])


def test_the_first_arguments_are_those_of_the_setting():
    policy = make_policy("contextual", "uss-pd", [0.1, 0.2], 3, forced=7)
    assert (policy.K, policy.dimension, policy.forced) == (2, 3, 7)
    # A policy that looks at no context has no dimension.
    assert make_policy("contextual", "Fixed", [0.1, 0.2], 3, arm=1).arm == 1
    policy = make_policy("allocation", "CSB-DU", 4, 2.5, gamma=0.1)
    assert (policy.K, policy.Q, policy.gamma) == (4, 2.5, 0.1)
    assert make_policy("multiplayer", "Musical-Chairs", 4, learning_rounds=9).T0 == 9


def test_first_arguments_are_checked_by_their_names():
    assert make_policy("contextual", "uss-pd", [0.1, 0.2], dimension=3).dimension == 3
    with pytest.raises(ValueError, match="CSB-SU needs the option budget"):
        make_policy("allocation", "CSB-SU", 4)
    with pytest.raises(ValueError, match="arms is not an option of CSB-SU"):
        make_policy("allocation", "CSB-SU", 4, 1.0, arms=4)
    with pytest.raises(ValueError, match="CSB-SU takes arms, budget before its options, got 3 arguments"):
        make_policy("allocation", "CSB-SU", 4, 1.0, 2.0)


def test_the_options_of_a_policy():
    assert option_names("cascade", "uss-ucb") == ("alpha",)
    assert option_names("Allocation", "csb-sk") == ("epsilon", "delta", "wait")
    assert SETTINGS["allocation"].first == ("arms", "budget")


def test_the_name_of_an_object():
    class Mine(UssUcb):
        pass

    assert policy_name("cascade", FixedArm([1, 2], 0)) == "Fixed"
    assert policy_name("cascade", Mine([1, 2])) is None


def test_names_of_before_are_understood_and_not_listed():
    setting = SETTINGS["cascade"]
    assert setting.canonical_name("uss-ts-JOINT") == "USS-TS-joint"
    assert "USS-TS-joint" not in setting.policies
    policy = make_policy("cascade", "USS-TS-joint", [0.1, 0.2])
    assert (policy.redraws, setting.name_of(policy)) == (1, "USS-TS-joint")
    assert option_names("cascade", "USS-TS-joint") == ()
    with pytest.raises(ValueError, match="redraws is not an option of USS-TS-joint, which takes: none"):
        make_policy("cascade", "USS-TS-joint", [0.1, 0.2], redraws=3)

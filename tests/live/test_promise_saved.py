"""A promise that is saved can be loaded, and goes on as it would have."""

from weakfeedback import Cascade, Costed, Scored


def test_a_reference_that_costs_less_than_stated_can_be_loaded_again():
    cascade = Cascade(2, [1, 20], agree=0.95, seed=0)
    for n in range(200):  # a new group now and then: one comparison by lot stands for many requests
        step = cascade.begin(group=f"g{n // 40}")
        while step.stage is not None:
            sure = Scored("a", 0.9 if n % 3 else 0.1)
            step = cascade.tell(step.id, sure if step.stage == 0 else Costed("a", 0.5))
        if any(share.alone < 0.0 for _, share in cascade.core.counts.promise.groups):
            break
    assert min(share.alone for _, share in cascade.core.counts.promise.groups) < 0.0
    again = Cascade.from_state(cascade.state())
    assert again.state() == cascade.state()
    assert str(again.report()) == str(cascade.report())

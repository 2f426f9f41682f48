"""A generator whose draws are given."""


class Script:
    """Returns given numbers in order, fails when they run out, and records the calls."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)
        self.calls = []

    def beta(self, a, b):
        self.calls.append((a, b))
        return self.numbers.pop(0)

    def random(self):
        self.calls.append("random")
        return self.numbers.pop(0)


NO_DRAWS = Script()

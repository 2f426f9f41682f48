"""A generator whose draws are given."""


class Script:
    """Returns given numbers in order (``again``: over and over), fails when they run out; notes what it was asked."""

    def __init__(self, *numbers, again=False):
        self.numbers, self.asked, self.again = list(numbers), [], again

    def _next(self, question):
        self.asked.append(question)
        number = self.numbers.pop(0)
        if self.again:
            self.numbers.append(number)
        return number

    def beta(self, a, b):
        return self._next((float(a), float(b)))

    def random(self):
        return self._next("u")


NO_DRAWS = Script()

"""A generator whose draws are given."""


class Scripted:
    """Hands out given draws in turn, and notes what it was asked for."""

    def __init__(self, draws):
        self.draws, self.asked = list(draws), []

    def _next(self, question):
        self.asked.append(question)
        return self.draws[len(self.asked) - 1]

    def beta(self, a, b):
        return self._next((float(a), float(b)))

    def random(self):
        return self._next("u")

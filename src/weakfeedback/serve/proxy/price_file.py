"""A table of prices by the name of the model, in the format of LiteLLM's ``model_prices_and_context_window.json``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from weakfeedback.serve.proxy.prices import MILLION, Price
from weakfeedback.toml import near
from weakfeedback.validate import brief

GIVEN, MADE, CACHED = "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost"


class PriceFile:
    """The prices of a file; only entries that are asked for are checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"prices: {path} does not exist") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"prices: {path} cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"prices: {path} must hold an object, models by name, got {brief(found)}")
        self._entries: dict[str, Any] = found

    def of(self, where: str, model: str) -> Price:
        """Return the price of a model: under its name, or under ``provider/name`` if all providers ask the same."""
        if model in self._entries:
            return self._price(where, model)
        names = [name for name in self._entries if name.rpartition("/")[2] == model]
        prices = {self._price(where, name) for name in names}
        if len(prices) == 1:
            return prices.pop()
        if names:
            known = ", ".join(sorted(names)[:5])
            raise ValueError(
                f"{where}.price must be given: prices of {brief(model)} differ in {self.path} ({known})"
            )
        hint = near(model, self._entries)
        raise ValueError(f"{where}.price must be given: {brief(model)} is not in {self.path}{hint}")

    def _price(self, where: str, name: str) -> Price:
        entry = self._entries[name]
        entry = entry if isinstance(entry, dict) else {}
        given = entry.get(GIVEN)
        amounts: list[Any] = [given, entry.get(MADE, 0.0), entry.get(CACHED, given)]
        for value in amounts:
            fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not fine or value < 0:
                raise ValueError(
                    f"{where}.price must be given: {brief(name)} in {self.path} has no {GIVEN} that is a number >= 0"
                )
        given, made, cached = (round(value * MILLION, 9) for value in amounts)
        return Price(input=given, output=made, cached=cached)

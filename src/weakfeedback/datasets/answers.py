"""Answers that commercial services and language models really gave, with their prices; shipped with the package.

Source, commit and licence of every file are in ``recorded/SOURCES.md``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.validate import brief

FOLDER = Path(__file__).parent / "recorded"
MMLU_PRO = (1400.0, 350.0)  # assumed tokens of input and output


@dataclass(frozen=True)
class Answers:
    """A table of recorded answers, cheapest model first, the reference last.

    Attributes
    ----------
    truth, outputs : n labels, and labels of shape (n, K)
        Truth is for evaluation only.
    scores : numbers, shape (n, K), or None
        The confidence of a service; minus the length of the answer of a language model.
    groups : n labels, or None
        Known before a model is called.
    models, prices : K names, and K numbers
        What 10,000 calls cost in dollars, on average.
    """

    truth: np.ndarray
    outputs: np.ndarray
    scores: np.ndarray | None
    groups: np.ndarray | None
    models: tuple[str, ...]
    prices: tuple[float, ...]


@dataclass(frozen=True)
class Chain:
    """Where a table comes from: a file, its models in the order of price, and their prices.

    Prices are dollars for 10,000 calls, or pairs for a million tokens of input and of output; ``tokens`` are the mean
    tokens of a call of each model.
    """

    file: str
    about: str
    models: tuple[str, ...]
    prices: tuple[float, ...] | tuple[tuple[float, float], ...]
    group: str = ""
    tokens: tuple[tuple[float, float], ...] = ()

    @property
    def words(self) -> str:
        """Say what it is, and which models answered."""
        return f"recorded answers: {self.about}, {len(self.models)} models"

    def relative(self, reference: float) -> tuple[float, ...]:
        """Return the prices when a call of the reference, the last model, costs ``reference``."""
        return tuple(round(reference * price / self.means[-1], 10) for price in self.means)

    def load(self) -> Answers:
        """Read the table."""
        table = _read(self.file)
        scores = None
        if f"{self.models[0]}.score" in table:
            scores = np.column_stack([table[f"{one}.score"].to_numpy(dtype=float) for one in self.models])
        elif f"{self.models[0]}.tokens" in table:
            scores = np.column_stack([-table[f"{one}.tokens"].to_numpy(dtype=float) for one in self.models])
        return Answers(
            _labels(table["truth"]),
            np.column_stack([_labels(table[one]) for one in self.models]),
            scores,
            _labels(table[self.group]) if self.group else None,
            self.models,
            self.means,
        )

    @property
    def means(self) -> tuple[float, ...]:
        """Return what 10,000 calls of each model cost in dollars."""
        found: list[float] = []
        tokens = self.tokens or (MMLU_PRO,) * len(self.models)
        for k, (into, out) in enumerate(tokens):
            price: Any = self.prices[k]
            found.append(
                0.01 * (price[0] * into + price[1] * out) if isinstance(price, tuple) else float(price)
            )
        return tuple(found)


@functools.cache
def _read(file: str) -> Any:
    import pandas as pd

    return pd.read_parquet(FOLDER / f"{file}.parquet")


def _labels(column: Any) -> np.ndarray:
    """Return labels as numbers or text; an answer that could not be read is the text ""."""
    if column.dtype.kind in "iu":
        found: np.ndarray = column.to_numpy(dtype=np.int64)
        return found
    return np.array(["" if one != one else str(one) for one in column.tolist()])


_FACES = ("github-cnn", "facepp", "microsoft")
_SPEECH = ("github-deepspeech", "ibm", "microsoft")
CHAINS = {
    "rafdb": Chain("api-rafdb", "emotions in faces (RAFDB)", _FACES, (0.001, 5.0, 10.0)),
    "ferplus": Chain("api-ferplus", "emotions in faces (FER+)", _FACES, (0.001, 5.0, 10.0)),
    "shop": Chain(
        "api-shop",
        "sentiment of reviews (SHOP)",
        ("github-bixin", "amazon", "google", "baidu"),
        (0.001, 0.75, 2.5, 3.5),
    ),
    "audiomnist": Chain("api-audiomnist", "spoken digits (AudioMNIST)", _SPEECH, (0.02, 25.0, 41.0)),
    "yelp": Chain(
        "api-yelp", "sentiment of reviews (Yelp)", ("github-vader", "amazon", "google"), (0.001, 0.75, 2.5)
    ),
    "command": Chain("api-command", "spoken commands (Speech Commands)", _SPEECH, (0.02, 25.0, 41.0)),
    "gsm8k-llama": Chain(
        "gsm8k",
        "GSM8K by Llama 3.1 8B, 70B, 405B",
        ("meta-llama-3.1-8b-instruct", "meta-llama-3.1-70b-instruct", "llama-3.1-405b-inst"),
        ((0.18, 0.18), (0.88, 0.88), (3.5, 3.5)),
        tokens=((139.345, 185.533), (139.345, 142.55), (139.345, 152.326)),
    ),
    "gsm8k-gpt": Chain(
        "gsm8k",
        "GSM8K by GPT-4o mini and GPT-4o",
        ("gpt-4o-mini-2024-07-18", "gpt-4o-2024-08-06"),
        ((0.15, 0.6), (2.5, 10.0)),
        tokens=((139.345, 135.108), (139.345, 129.059)),
    ),
    "gsm8k-claude": Chain(
        "gsm8k",
        "GSM8K by Claude 3 Haiku and 3.5 Sonnet",
        ("claude-3-haiku-20240307", "claude-3-5-sonnet-20241022"),
        ((0.25, 1.25), (3.0, 15.0)),
        tokens=((139.345, 183.063), (139.345, 100.766)),
    ),
    "mmlu-pro-llama": Chain(
        "mmlu-pro",
        "MMLU-Pro by Llama 3.1 8B and 70B, 14 categories",
        ("meta-llama-3_1-8b-instruct", "meta-llama-3_1-70b-instruct"),
        ((0.18, 0.18), (0.88, 0.88)),
        "category",
    ),
    "mmlu-pro-gemini": Chain(
        "mmlu-pro",
        "MMLU-Pro by Gemini 1.5 Flash and Pro, 14 categories",
        ("gemini-1.5-flash-002", "gemini-1.5-pro-002"),
        ((0.075, 0.3), (1.25, 5.0)),
        "category",
    ),
    "routellm-gsm8k": Chain(
        "routellm-gsm8k",
        "GSM8K by Mixtral 8x7B and GPT-4, RouteLLM's rows",
        ("mixtral-8x7b", "gpt-4-1106"),
        (0.24, 24.7),
    ),
}


@functools.cache
def load_answers(name: str) -> Answers:
    """Return the recorded answers with this name.

    >>> load_answers("rafdb").models
    ('github-cnn', 'facepp', 'microsoft')
    """
    if not isinstance(name, str) or name not in CHAINS:
        raise ValueError(f"recorded answers are {', '.join(CHAINS)}, got {brief(name)}")
    return CHAINS[name].load()

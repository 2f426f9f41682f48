"""Shell completion. Imports are deferred until a name is needed."""

from __future__ import annotations

from collections.abc import Iterable

from typer import Context

KINDS = ("settings", "policies", "instances", "experiments")
REWARDS = ("bernoulli", "uniform", "beta")


def settings(incomplete: str) -> list[str]:
    """Return names of settings."""
    from weakfeedback.settings.catalog import SETTINGS

    return _filter_prefix(SETTINGS, incomplete)


def kinds(incomplete: str) -> list[str]:
    """Return the kinds that `list` can show."""
    return _filter_prefix(KINDS, incomplete)


def listed(context: Context, incomplete: str) -> list[str]:
    """Return names of the kind that was typed before."""
    from weakfeedback.settings.catalog import POLICIES, SETTINGS

    kind, chosen = context.params.get("kind"), context.params.get("setting")
    settings = [setting for setting in SETTINGS.values() if not chosen or setting.name == chosen]
    if kind == "experiments":
        return experiments(incomplete)
    if kind == "settings":
        names = [setting.name for setting in settings]
    elif kind == "policies":
        names = [name for setting in settings for name in POLICIES[setting.name]]
    else:
        names = [name for setting in settings for name in setting.instance_names()]
    return _filter_prefix(dict.fromkeys(names), incomplete)


def players(incomplete: str) -> list[str]:
    """Return names of the policies of players, in lower case as in the examples."""
    from weakfeedback.settings.catalog import POLICIES

    return _filter_prefix((name.lower() for name in POLICIES["multiplayer"]), incomplete.lower())


def rewards(incomplete: str) -> list[str]:
    """Return names of reward distributions."""
    return _filter_prefix(REWARDS, incomplete)


def experiments(incomplete: str) -> list[str]:
    """Return chapters and ids of experiments; after a comma, the next one."""
    from weakfeedback.reproduce.registry import experiments as known
    from weakfeedback.reproduce.registry import short_names

    before, comma, word = incomplete.rpartition(",")
    names = [*short_names(), *known()]
    return [before + comma + name for name in _filter_prefix(names, word.lower())]


def _filter_prefix(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

"""Every policy on every sample problem over 200 rounds: the bytes of its parquet file, and its rows."""

import warnings
from hashlib import sha256

from weakfeedback import simulate
from weakfeedback.settings.catalog import SETTINGS

# measures that were added since
NEWER = dict.fromkeys(("spent", "differs", "errors", *(f"calls_{k}" for k in range(9))), "adaptive")


def pairs():
    """All problems and policies, by name."""
    for name, setting in SETTINGS.items():
        for sample in setting.samples:
            for policy in setting.policies:
                yield f"{name} {sample} {policy}", setting, setting.samples[sample], policy


def play(setting, make, policy, path, compiled=False):
    """The digests of the rows and of the file, or how the pair is refused."""
    problem = make()
    options = getattr(setting.policy_class(policy), "sample_options", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = setting.make(policy, problem, options)
            results = simulate(problem, {policy: made}, 200, replications=2, seed=5, compiled=compiled)
        except (ValueError, TypeError) as error:
            return {"refused": str(error)}
    results.frame = results.frame.drop(
        columns=[name for name in results.frame if NEWER.get(name) == setting.name]
    )
    results.about.pop("sources")  # the text of the policies' modules, which may change
    results.save(path)
    rows = results.frame.to_csv(index=False).encode()
    return {"rows": sha256(rows).hexdigest()[:16], "file": sha256(path.read_bytes()).hexdigest()[:16]}

"""The conformance checks of one policy of the catalogue, then the test files that name it: ``make check POLICY=NAME``.

Not collected by pytest.
"""

import subprocess
import sys
from pathlib import Path

from weakfeedback.checks import PolicyCheckError, check_policy
from weakfeedback.settings.catalog import SETTINGS
from weakfeedback.settings.setting import find_name

HERE = Path(__file__).parent


def make(setting, name, options, problem):
    """A factory, as the checks want it."""
    return setting.make(name, problem, options)


def main(word):
    """Check a policy; the exit status."""
    try:
        name = find_name("POLICY", word, {name for setting in SETTINGS.values() for name in setting.policies})
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    classes = set()
    for setting in SETTINGS.values():
        if name in setting.policies:
            problem, policy = setting.sample(name)
            classes.add(type(policy).__name__)
            options = getattr(type(policy), "sample_options", {})
            try:
                print(
                    check_policy(
                        lambda given, known=setting, options=options: known.make(name, given, options),
                        problem,
                    )
                )
            except PolicyCheckError as error:
                print(error, file=sys.stderr)
                return 1
    files = sorted(
        str(path) for path in HERE.rglob("test_*.py") if any(one in path.read_text() for one in classes)
    )
    print(f"{name}: {len(files)} test files name {', '.join(sorted(classes))}", flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "worksteal",
        "-m",
        "not slow",
        *files,
    ]
    return subprocess.run(command).returncode if files else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

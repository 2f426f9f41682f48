"""The conformance checks of one policy, then its test files, then what is missing: ``make check POLICY=NAME``.

Not collected by pytest.
"""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

from weakfeedback.checks import PolicyCheckError, check_policy
from weakfeedback.settings.catalog import SETTINGS
from weakfeedback.settings.setting import find_name

ROOT = Path(__file__).parents[1]


def missing(setting, name, root=ROOT):
    """Say what a policy of the catalogue still lacks, one line each."""
    cls = setting.policies[name]
    package = importlib.import_module(f"weakfeedback.{setting.name}")
    tests = [path.read_text() for path in (root / "tests").rglob("test_*.py")]
    named = [text for text in tests if re.search(rf"\b{cls.__name__}\b", text)]
    twins = [path.read_text() for path in (root / "tests" / "reference").glob("*.py")]
    mark = f"{{py:class}}`weakfeedback.{setting.name}.{cls.__name__}`"
    pages = [path for path in (root / "docs" / "algorithms").glob("*.md") if mark in path.read_text()]
    stored = json.loads((root / "tests" / "evidence" / "stored" / "simulated.json").read_text())
    told = (root / "CHANGELOG.md").read_text().lower()
    words = {name, name.replace("-", " "), name[name.rfind("-") :]}
    line = f"from {cls.__module__} import {cls.__name__} as {cls.__name__}"
    here = f"src/weakfeedback/{setting.name}/__init__.py"
    found = {
        "words: the class has no in_short, what it is in one line": setting.words_of(name),
        f"export: {cls.__name__} is not among the names of weakfeedback.{setting.name}": cls.__name__
        in package.__all__,
        f"types: for type checkers, in {here}: {line}": line in Path(package.__file__).read_text(),
        f"twin: no slow twin Slow{cls.__name__}, or one that names {cls.__name__}, in tests/reference/": any(
            re.search(rf"\b(Slow)?{cls.__name__}\b", text) for text in twins
        )
        or any("tests.reference" in text for text in named),
        f"mutants: no test file names {cls.__name__} and plays mutants": any(
            "mutants" in text for text in named
        ),
        f"page: no page in docs/algorithms/ has {mark}": pages,
        "numbers: its page shows none, by ```{numbers} EXPERIMENT": not pages
        or any("```{numbers}" in page.read_text() for page in pages),
        f"changelog: CHANGELOG.md does not name {name}": any(word.lower() in told for word in words),
        "evidence: what it decides is not frozen: python -m tests.evidence --new": any(
            key.startswith(f"{setting.name} ") and key.endswith(f" {name}") for key in stored
        ),
    }
    return [words for words, there in found.items() if not there]


def main(word):
    """Check a policy; the exit status."""
    try:
        name = find_name("POLICY", word, {name for setting in SETTINGS.values() for name in setting.policies})
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    classes, lacks = set(), []
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
            lacks += missing(setting, name)
    files = sorted(
        str(path)
        for path in (ROOT / "tests").rglob("test_*.py")
        if any(re.search(rf"\b{one}\b", path.read_text()) for one in classes)
    )
    print(f"{name}: {len(files)} test files name {', '.join(sorted(classes))}", flush=True)
    status = 0
    if files:
        options = ["-q", "-n", "2", "--dist", "worksteal", "-m", "not slow"]
        status = subprocess.run([sys.executable, "-m", "pytest", *options, *files]).returncode
    for line in lacks:
        print(f"missing: {line}")
    if not lacks:
        print(f"{name}: nothing is missing")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

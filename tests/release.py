"""Make the files of a release, and use what they install: ``python tests/release.py FOLDER``.

Wheel and sdist are built from a clean clone of the last commit. Each is installed into a fresh environment, in which
the commands and snippets of the README run. With them come a bill of materials (CycloneDX) of the locked versions,
which is validated, and the checksums of all. ``make release`` runs this; it needs git and an index of packages.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.rig.processes import PATIENCE

ROOT = Path(__file__).parents[1]
TOOLS = ("hatchling>=1.25", "cyclonedx-python-lib[json-validation]>=9", "twine>=6")
# extras for users; the others are for developers
SHIPPED = ("distributed", "gym", "otel", "postgres", "serve")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VALIDATE = """
import sys
from pathlib import Path
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(Path(sys.argv[1]).read_text()))
"""
LONG = ("reproduce",)
LOG = "small,large\n" + "".join(f"{k % 7},{k % 7 if k % 9 else 8}\n" for k in range(300))


# -- bill of materials


def locked(text):
    """The hashes of the files of every package in a lock, by its name and version."""
    found = {}
    for entry in re.split(r"\n(?=\S)", text):
        pinned = re.match(r"([\w.-]+)==([^\s;\\]+)", entry)
        if pinned is not None:
            hashes = re.findall(r"--hash=sha256:(\w+)", entry)
            found[canonicalize_name(pinned[1]), pinned[2]] = hashes
    return found


def closure(name, extras=()):
    """The packages that one needs here, by name, each with those that it needs itself."""
    found, waiting = {}, [(canonicalize_name(name), frozenset(extras))]
    seen = set()
    while waiting:
        one, asked = waiting.pop()
        if (one, asked) in seen:
            continue
        seen.add((one, asked))
        needs = found.setdefault(one, set())
        for text in importlib.metadata.requires(one) or ():
            wanted = Requirement(text)
            applies = (
                wanted.marker is None
                or wanted.marker.evaluate()
                or any(wanted.marker.evaluate({"extra": extra}) for extra in asked)
            )
            if applies:
                needs.add(canonicalize_name(wanted.name))
                waiting.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return found


def bill(lock, version, when):
    """The bill of materials of the package: what it needs, and what its extras need, in the locked versions."""
    hashes, needed = locked(lock), closure("weakfeedback")
    everything = closure("weakfeedback", SHIPPED)

    def reference(name):
        known = version if name == "weakfeedback" else importlib.metadata.version(name)
        return f"pkg:pypi/{name}@{known}"

    components = []
    for name in sorted(everything.keys() - {"weakfeedback"}):
        told = importlib.metadata.metadata(name)
        component = {
            "type": "library",
            "bom-ref": reference(name),
            "name": name,
            "version": told["Version"],
            "scope": "required" if name in needed else "optional",
            "purl": reference(name),
        }
        if expression := told.get("License-Expression"):
            component["licenses"] = [{"expression": expression}]
        files = hashes[name, told["Version"]]  # KeyError if what is installed here is not what is locked
        component["externalReferences"] = [
            {
                "type": "distribution",
                "url": reference(name),
                "hashes": [{"alg": "SHA-256", "content": one} for one in files],
            }
        ]
        components.append(component)
    subject = {
        "type": "library",
        "bom-ref": reference("weakfeedback"),
        "name": "weakfeedback",
        "version": version,
        "licenses": [{"expression": "MIT"}],
        "purl": reference("weakfeedback"),
    }
    dependencies = [
        {"ref": reference(name), "dependsOn": sorted(reference(one) for one in needs)}
        for name, needs in sorted(everything.items())
    ]
    made = {"components": components, "dependencies": dependencies}
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([subject, made]))
    head = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
    }
    return {**head, "metadata": {"timestamp": when, "component": subject}, **made}


# -- the README


def commands(readme):
    """The commands of the README, without their comments."""
    text = readme.read_text()
    lines = [line for kind, block in FENCE.findall(text) if kind == "" for line in block.splitlines()]
    return list(dict.fromkeys(line.partition("  #")[0].strip() for line in lines))


def use(binaries, readme, folder, python, again=False):
    """Run what the README shows with what is installed: commands, then snippets; yields each with its trouble.

    What takes long is not run ``again``: wheel and sdist install the same modules.
    """
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    variables = {
        **os.environ,
        "PATH": path,
        "WEAKFEEDBACK_CACHE": str(folder / "cache"),
        "MPLBACKEND": "agg",
    }
    (folder / "log.csv").write_text(LOG)
    for line in commands(readme):
        words = shlex.split(line)
        if words[0] in ("pip", "make"):  # these are for the source, see below
            continue
        if again and words[1] in LONG:
            continue
        if words[:2] == ["weakfeedback", "serve"]:
            yield line, answers([*words, "--port", "0"], folder, variables)
        else:
            yield line, failure(words, folder, variables)
    for number, (kind, block) in enumerate(FENCE.findall(readme.read_text())):
        if kind == "python":
            (folder / f"snippet{number}.py").write_text(block)
            yield f"snippet {number}", failure([python, f"snippet{number}.py"], folder, variables)


def failure(words, folder, variables=None):
    """Run a command; the end of its output if it fails, else nothing."""
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return (
        ""
        if done.returncode == 0
        else f"status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )


def answers(words, folder, variables):
    """Start a service, ask whether it is ready, end it; what went wrong, if anything did."""
    with (folder / "errors").open("w+") as errors:
        served = subprocess.Popen(
            words, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            address = next(
                (found[0] for line in served.stdout if (found := re.search(r"http://\S+", line))), ""
            )
            with urllib.request.urlopen(f"{address}health/ready", timeout=PATIENCE) as answer:
                ready = answer.status == 200
        except (OSError, ValueError) as error:
            return f"{error!r}\n{(folder / 'errors').read_text()[-4000:]}"
        finally:
            served.send_signal(signal.SIGTERM)
            rest, _ = served.communicate(timeout=PATIENCE)
        return "" if ready and served.returncode == 0 else f"status {served.returncode}\n{rest}"


# -- the release


def run(*words, **more):
    """Run a command that must succeed; its output."""
    return subprocess.run(
        [str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **more
    ).stdout.strip()


def environment(folder, *packages):
    """A fresh environment with some packages; its Python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists() or failure(
        [str(uv), "pip", "install", "--quiet", "--python", str(python), *map(str, packages)], folder
    ):
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return python


def reported(name, what, trouble):
    """Print what was tried, and return whether it failed."""
    print(f"  {name}: {what}: {'FAILED' if trouble else 'ok'}\n{trouble}".rstrip(), flush=True)
    return bool(trouble)


def release(out, work):
    """Make and try everything; how much failed."""
    run("git", "clone", "--quiet", ROOT, work / "clone")
    commit = {"cwd": work / "clone"}
    seconds = run("git", "log", "-1", "--format=%ct", **commit)
    when = run(
        "git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
        env={**os.environ, "TZ": "UTC"}, **commit,
    )  # fmt: skip
    tools = environment(work / "tools", *TOOLS)
    made = work / "dist"
    variables = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
    run(tools, "-m", "hatchling", "build", "-d", made, env=variables, stderr=subprocess.PIPE, **commit)
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    run(tools, "-m", "twine", "check", "--strict", wheel, sdist)
    version = wheel.name.split("-")[1]
    materials = made / f"weakfeedback-{version}.cdx.json"
    told = bill((work / "clone" / "requirements.lock").read_text(), version, when)
    materials.write_text(json.dumps(told, indent=1) + "\n")
    run(tools, "-c", VALIDATE, materials)
    print(f"  bill of materials: {len(told['components'])} packages, valid", flush=True)
    source = work / "source"
    with tarfile.open(sdist) as packed:
        packed.extractall(source, filter="data")
    (source,) = source.iterdir()

    def tried(file):
        """Use what a file installs; the source, too, with the sdist. What failed."""
        folder = work / file.name.replace(".", "-")
        folder.mkdir()
        python = environment(folder / "venv", f"{file}[serve]")
        shutil.copytree(source / "examples", folder / "examples")
        found = use(python.parent, source / "README.md", folder, python, file is sdist)
        failed = sum(reported(file.name, what, trouble) for what, trouble in found)
        if file is sdist:
            for made_by in (
                [python, "-m", "pip", "install", "--quiet", "."],
                ["make", "demo", f"PYTHON={sys.executable}"],
            ):
                failed += reported("source", " ".join(map(str, made_by[-2:])), failure(made_by, source))
        return failed

    with ThreadPoolExecutor(2) as both:  # most of it runs on one core
        failed = sum(both.map(tried, (wheel, sdist)))
    if not failed:
        out.mkdir(parents=True, exist_ok=True)
        files = [wheel, sdist, materials]
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (made / "SHA256SUMS").write_text("".join(sums))
        for file in (*files, made / "SHA256SUMS"):
            shutil.copy2(file, out)
            print(f"  release {out / file.name}")
    return failed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weakfeedback-release-") as name:
        sys.exit(1 if release(Path(sys.argv[1]), Path(name)) else 0)

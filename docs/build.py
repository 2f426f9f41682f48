"""Build the documentation: ``python docs/build.py [OUT] [--results FOLDER] [--play]``; warnings are errors.

``--page NAME`` builds one page alone, such as ``algorithms/uss-ts``, without its numbers and without checking links.

The pages show stored results. ``--play`` first plays the experiments that they name, as ``weakfeedback reproduce
--quick`` does; what is in the folder already is kept. Exit status 0, or 2 with one line on what is missing.
"""

import argparse
import gc
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NUMBERS = re.compile(r"^```\{(?:numbers|curves)\} (.+)$", re.MULTILINE)


def main(arguments=None):
    """Build the site and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, default=HERE.parent / "out" / "docs")
    parser.add_argument("--results", type=Path, default=HERE.parent / "out" / "docs-results")
    parser.add_argument("--play", action="store_true", help="play what the pages show and the folder lacks")
    parser.add_argument("--page", help="one page alone, such as algorithms/uss-ts")
    parser.add_argument("--fresh", action="store_true", help="read every page again")
    options = parser.parse_args(arguments)
    if options.page:
        return build_page(options.out, options.page.removesuffix(".md"))
    if options.play:
        played = subprocess.run(play_command(options.results), stdout=subprocess.DEVNULL).returncode
        if played:
            return played
    return build(options.out, options.results, options.fresh)


def needed():
    """The experiments that the pages show, as ids and patterns."""
    named = {
        word
        for page in HERE.rglob("*.md")
        for line in NUMBERS.findall(page.read_text())
        for word in line.split()
    }
    return sorted(named - {"EXPERIMENT"})  # the word by which the directive is explained


def play_command(results):
    """The command that plays them."""
    command = [sys.executable, "-m", "weakfeedback", "reproduce", "--quick", "--out", str(results)]
    return [*command, "--only", *needed()]


def build(out, results, fresh=False):
    """Build the site into ``out`` with the stored results in ``results``; return the exit status."""
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    settings = {"results_folder": str(results)}
    trees = out.parent / f".{out.name}-doctrees"
    try:
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                *(HERE, HERE, out, trees, "html"),
                confoverrides=settings,
                status=None,
                freshenv=fresh,
                warningiserror=True,
            )
            app.build()
    except SphinxError as error:
        print(f"docs: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    if app.statuscode:
        print(f"docs: {app._warncount} warnings, see above", file=sys.stderr)
        return 2
    print(f"  docs    {out / 'index.html'}")
    return 0


def build_page(out, page):
    """Build one page into ``out``, as far as that can be done without the others; return the exit status."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    if not (HERE / f"{page}.md").is_file():
        print(f"docs: PAGE must be a page in docs, such as algorithms/uss-ts, got {page!r}", file=sys.stderr)
        return 2
    alone = {
        "include_patterns": [f"{page}.md"],
        "root_doc": page,
        "nitpicky": False,
        "suppress_warnings": ["config.cache", "myst.xref_missing", "toc", "ref", "image"],
        "results_folder": "",
    }
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            *(HERE, HERE, out, out.parent / f".{out.name}-page-doctrees", "html"),
            confoverrides=alone,
            status=None,
            freshenv=True,
        )
        app.build()
    print(f"  docs    {out / page}.html")
    return 0


if __name__ == "__main__":
    gc.disable()  # a sixth of the time; the process ends soon, and has 600 MB at most
    sys.exit(main())

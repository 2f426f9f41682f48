"""Build the documentation: ``python docs/build.py [OUT] [--results FOLDER]``; warnings are errors.

Exit status 0, or 2 with one line on what is missing.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(arguments=None):
    """Build the site and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, default=HERE.parent / "out" / "docs")
    parser.add_argument("--results", type=Path, default=HERE.parent / "out" / "reproduction")
    parser.add_argument("--fresh", action="store_true", help="read every page again")
    options = parser.parse_args(arguments)
    return build(options.out, options.results, options.fresh)


def build(out, results, fresh=False):
    """Build the site into ``out`` with the stored results in ``results``; return the exit status."""
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    trees = out.parent / f".{out.name}-doctrees"
    settings = {"results_folder": str(results)}
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


if __name__ == "__main__":
    sys.exit(main())

"""Pictures of what the examples print or draw: ``python docs/pictures.py [NAME ...]`` runs them again.

What a script prints becomes ``docs/images/NAME.svg``, text in a frame, light or dark as the reader's system asks.
``compare_policies.py`` also draws ``docs/images/regret.png``. A test compares the pictures with what the scripts print.
"""

import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
LINE, COLUMN, EDGE = 19, 8.2, 18
STYLE = """
  .ground { fill: #f7f8fa; stroke: #c8ccd2; }
  text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 13px; fill: #1a1a1a; }
  .command { fill: #0b5fa5; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #16191d; stroke: #3a4048; }
    text { fill: #eeeeee; }
    .command { fill: #7fbdf0; }
  }
"""


def picture(name, printed):
    """The SVG of what ``python examples/NAME.py`` printed."""
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    command = f"$ python examples/{name}.py"
    width = round(2 * EDGE + COLUMN * max(len(line) for line in [command, *lines]))
    height = 2 * EDGE + LINE * (len(lines) + 1)
    rows = [f'<text x="{EDGE}" y="{EDGE + 12}" class="command">{escape(command)}</text>']
    for k, line in enumerate(lines, 1):
        rows.append(
            f'<text x="{EDGE}" y="{EDGE + 12 + LINE * k}" xml:space="preserve" class="printed">{escape(line)}</text>'
        )
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="what {name}.py prints">\n'
        f'<style>{STYLE}</style>\n<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
        'class="ground"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def main(names):
    """Run the examples and write their pictures."""
    IMAGES.mkdir(exist_ok=True)
    scripts = sorted((ROOT / "examples").glob("*.py"))
    for script in scripts:
        if names and script.stem not in names:
            continue
        more = [str(IMAGES / "regret.png")] if script.stem == "compare_policies" else []
        command = [sys.executable, str(script), *more]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        (IMAGES / f"{script.stem}.svg").write_text(picture(script.stem, done.stdout))
        print(f"  picture {IMAGES / script.stem}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])

"""A real browser, without a window: opens a page at the width of a phone and runs a script on it."""

import json
import re
import shutil
import subprocess

import pytest
from tests.rig.processes import PATIENCE

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--hide-scrollbars", "--disable-background-networking", "--disable-component-update"),
    "--allow-file-access-from-files",
)
FRAME = """<body style="margin:0"><iframe id="f" src="{page}"
style="width:{width}px;height:{height}px;border:0"></iframe>
<script>
document.getElementById("f").onload = function () {{
  var page = this.contentDocument;
  setTimeout(function () {{
    var found = {{ wide: page.documentElement.scrollWidth }};
    {script}
    document.title = JSON.stringify(found);
  }}, 1500);
}};
</script>"""


def browser():
    """The name of a Chromium; the test is skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine: install chromium to test pages in a browser")
    return found


def probe(page, script, folder, width=360, height=800):
    """What ``script`` writes into ``found``; an error on the page's console fails the test."""
    (folder / "probe.html").write_text(
        FRAME.format(page=page.as_uri(), script=script, width=width, height=height)
    )
    words = [browser(), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=15000"]
    words += ["--enable-logging=stderr", "--dump-dom", (folder / "probe.html").as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert not re.search(r"CONSOLE.*(Error|error)", done.stderr), done.stderr[-2000:]
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    return json.loads(title.group(1).replace("&lt;", "<").replace("&amp;", "&"))

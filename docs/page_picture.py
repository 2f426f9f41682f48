"""Take the picture of the live page for the README: the real page of ``weakfeedback serve --demo``, in Chromium.

python docs/page_picture.py [docs/images/service-page.png]
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

SIZE = (1120, 900)
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
FLAGS += "--disable-component-update --disable-sync --hide-scrollbars"


def take(path: Path) -> None:
    """Start the demo, wait for a minute of it, and write the picture with few colours."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium on this machine")
    command = [sys.executable, "-m", "weakfeedback", "serve", "--demo", "--port", "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = next(line.split()[-1] for line in demo.stdout if " serves " in line)
        time.sleep(60)
        with tempfile.TemporaryDirectory() as folder:
            words = [browser, *FLAGS.split(), f"--user-data-dir={folder}", "--timeout=5000"]
            words += [
                f"--screenshot={path}",
                f"--window-size={SIZE[0]},{SIZE[1]}",
                f"{address}learners/mailroom",
            ]
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    finally:
        demo.terminate()
        demo.wait()
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images" / "service-page.png"))

"""Draw the two pictures of the README: docs/algorithms.png and docs/explorer.png.

    python docs/pictures.py [algorithms] [explorer]

algorithms.png: prefix patching as each algorithm predicts it, beside a bundled model.
explorer.png: the explorer on that model; needs Chromium and playwright.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import statetrace as st
from statetrace.reports.figures.chart import Chart

HERE = Path(__file__).parent
MODEL = "zoo:s3-parity-associative"


def algorithms(path: Path) -> None:
    model = st.load(MODEL)
    predicted = st.signatures("S3", model.length, pairs=100).plot("all")
    results = model.analyze("patching", pairs=200, grids=["prefix-substitution-resid"])
    measured = results["patching"].plot().panels[0]
    title = "a trained model"
    panels = [*predicted.panels, replace(measured, title=title, tall=predicted.panels[0].tall)]
    panels = [
        replace(p, marks=tuple(replace(m, label="answer restored") for m in p.marks))
        for p in panels
    ]
    heading = "How much of the answer a patched prefix restores, by layer (S3, 24 actions)"
    Chart("algorithms", heading, tuple(panels), columns=5).save(path)


def explorer(path: Path) -> None:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "statetrace", "explore", MODEL, "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with sync_playwright() as driver:
            chromium = shutil.which("chromium")
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 1150}, color_scheme="light")
            page.goto(url)
            page.wait_for_selector("html[data-ready=true]")
            page.screenshot(path=path)
            browser.close()
    finally:
        server.terminate()


if __name__ == "__main__":
    drawings = {"algorithms": algorithms, "explorer": explorer}
    for name in sys.argv[1:] or drawings:
        drawings[name](HERE / f"{name}.png")

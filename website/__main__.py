"""`python -m website`: build the site strictly into build/site.

docs/ is written to be read in a checkout. A copy is staged in build/docs: links are rewritten to
the site's own pages, notebooks become Markdown, and marked places of the reference are filled from
the code. Zensical then checks every link and anchor and stops at the first warning.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from website.stage import ROOT, stage


def main() -> int:
    stage(ROOT / "build" / "docs")
    zensical = Path(sys.executable).with_name("zensical")
    build = [str(zensical), "build", "--clean", "--strict"]
    outcome = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    log = outcome.stdout + outcome.stderr
    docstrings = [line for line in log.splitlines() if line.startswith("griffe:")]
    if outcome.returncode or docstrings:
        print(log.partition("Traceback")[0], file=sys.stderr)
        return 1
    print("build/site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())

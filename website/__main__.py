"""`python -m website`: build the site strictly into build/site.

docs/ is written to be read in a checkout. A copy is staged in build/docs: links are rewritten to
the site's own pages, notebooks become Markdown, and marked places of the reference are filled from
the code. Zensical then checks every link and anchor and stops at the first warning. A page that
would load anything from the network is an error too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from website.stage import ROOT, stage

SITE = Path("build") / "site"
REMOTE = re.compile(
    r"""<(?:link|script|img|iframe)\b[^>]*\b(?:href|src)=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|(?:url\(|@import )["']?(?:https?:)?//[^\s"')]+"""
)


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
    if remote := list(loaded_from_the_network(ROOT / SITE)):
        print("loaded from the network:", *remote[:5], sep="\n", file=sys.stderr)
        return 1
    print(f"{SITE}/index.html (to search it too: python3 -m http.server -d {SITE})")
    return 0


def loaded_from_the_network(site: Path) -> Iterator[str]:
    """What pages and style sheets request from elsewhere, with the file that does; links that a
    reader may follow are not among it."""
    for file in sorted(file for kind in ("html", "css") for file in site.rglob(f"*.{kind}")):
        for match in REMOTE.finditer(file.read_text()):
            yield f"{file.relative_to(site)}: {match[0]}"


if __name__ == "__main__":
    sys.exit(main())

"""Pictures of what algorithms would show, and of models compiled from them (Figure 1)."""

from __future__ import annotations

from typing import Any

from reproduction.measures.theory import COMPILED, KNOWN
from reproduction.predicted import predicted
from reproduction.results import Missing, Results
from statetrace.groups import group
from statetrace.mechanisms.algorithms import ALGORITHMS, algorithm
from statetrace.reports.figures.chart import Chart, Dots, Heat, Line, Panel, grid, numbers
from statetrace.reports.figures.study_shares import style

LENGTH = 32
"""As in the rows."""
PAIRS = {"parity-associative": 1000}
"""As in the row that counts pairs of equal parity; 200 for the others."""
SPLITS = {"all": "all", "same": "same parity", "opposite": "opposite parity"}


def patched(found: Results) -> Chart:
    """Figure 1B: prefixes restored, by running the algorithms; the last one also by parity."""
    panels = []
    for name in ALGORITHMS:
        made = predicted(name, LENGTH, PAIRS.get(name, 200))
        for split in SPLITS if name == "parity-associative" else ("all",):
            z = made.patching["prefix", split]
            heat = Heat(list(range(1, LENGTH + 1)), list(range(len(z))), grid(z), "NLD")
            said = f", {SPLITS[split]}" if name == "parity-associative" else ""
            called = "PAA" if name == "parity-associative" else name
            title = f"{called}{said} ({made.pairs[split]} pairs)"
            panels.append(Panel("actions restored", "layer", (heat,), title, down=True, whole="xy"))
    title = f"What each algorithm would show: prefixes restored, S3, length {LENGTH} (Figure 1)"
    return Chart("algorithms-patching", title, tuple(panels))


def probed(found: Results) -> Chart:
    """Figure 1C: of how many lengths a layer's last token has the state, and the parity."""
    panels = []
    for name in ALGORITHMS:
        made = predicted(name, LENGTH)
        layers = list(range(made.rows))
        marks: list[Any] = []
        expected = {"sequential": lambda at: at / LENGTH, "associative": lambda at: 2**at / LENGTH}
        if name in expected:
            said = numbers(map(expected[name], layers))
            marks.append(Line("the paper's l/n or 2ˡ/n", layers, said, "grey", behind=True))
        for target, read, dash in (("state", "state", "solid"), ("parity", "parity linear", "dot")):
            known = (made.probes()[read] >= KNOWN).mean(1)
            marks.append(Line(target, layers, numbers(known), target, dash))
        panels.append(
            Panel("layer l", f"share of {LENGTH} lengths", tuple(marks), name, whole="x",
                  y_range=(0, 1.04))
        )  # fmt: skip
    title = f"What each algorithm would show: lengths known by a probe, S3, n = {LENGTH} (Figure 1)"
    return Chart("algorithms-probes", title, tuple(panels))


def compiled(found: Results) -> Chart:
    """Layers that algorithms need, and the accuracy of models whose weights were computed."""
    rows = [
        row
        for row in found.lines(COMPILED)
        if row["spec"]["group"] == "S3" and not row["spec"]["noise"] and row["label"] in ALGORITHMS
    ]
    if not rows:
        raise Missing("no compiled model was measured")
    lengths = sorted({row["spec"]["length"] for row in rows})
    lines, dots, said = [], [], []
    for number, name in enumerate(ALGORITHMS):
        colour, mark = style(name)
        program = algorithm(name, group("S3"))
        needed = [float(program.depth(length)) for length in lengths]
        lines.append(Line(name, lengths, needed, colour, mark=mark))
        mine = [row for row in rows if row["label"] == name]
        x = [row["spec"]["length"] + 0.3 * (number - 1.5) for row in mine]
        dots.append(Dots(name, x, numbers(row["accuracy"] for row in mine), (), colour, mark))
        said.append(f"{len(mine)} {name}")
    panels = (
        Panel("length", "layers needed", tuple(lines), "by running the algorithms", whole="xy"),
        Panel("length (marks set apart)", "states right", tuple(dots),
              f"compiled models without noise ({len(rows)})", y_range=(0, 1.05), whole="x"),
    )  # fmt: skip
    return Chart("compiled", f"Algorithms as models of S3: {', '.join(said)}", panels)

"""What a terminal of 80 columns shows: lines that fit, and no word that is broken."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from rich.console import Console

from statetrace.cli import study_view
from statetrace.studies.grid import Cell
from statetrace.studies.survey import CellState

COLUMNS = 80


def on_a_terminal(*words, **more):
    """What a command shows there, without colours; lines that were drawn over count as well."""
    end, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "statetrace", *words],
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"} | more,
        stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(end, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    process.wait()
    os.close(end)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def lines(shown):
    return re.split(r"[\r\n]+", shown)


def test_a_long_sentence_is_broken_between_words(tmp_path):
    shown = on_a_terminal("train", "--model", "bert", "--out", str(tmp_path / "run"))
    said = [line for line in lines(shown) if "━" not in line]  # what is drawn while it waits
    assert max(map(len, said)) <= COLUMNS
    sentence = " ".join(" ".join(said).split())
    assert "error: unknown model 'bert'; use one of distilgpt2, gpt2, gpt2-medium," in sentence
    assert len([line for line in said if line]) > 3


def test_a_notebook_does_not_redraw_lines(tmp_path):
    words = ("train", "--model", "bert", "--out", str(tmp_path / "run"))
    assert "━" in on_a_terminal(*words)
    assert "━" not in on_a_terminal(*words, JPY_PARENT_PID="1")


@pytest.mark.parametrize(("width", "said"), [(80, "PAA (98%)"), (200, "parity-associative (98%)")])
def test_a_study_fits(width, said):
    cell = Cell("gpt2_auxiliary-parity_seed-0", {}, {})
    final = {"accuracy": 0.998, "mechanism": "parity-associative", "confidence": 0.977}
    early = {"quick": "parity-associative"}
    state = CellState(cell, "finished", 5000, outcome={"final": final}, early=early)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(study_view.table([state], width=width))
    shown = console.export_text().splitlines()
    row = next(line for line in shown if line.startswith(cell.name))
    assert said in row
    assert ("PAA: parity-associative" in " ".join(shown)) == (width < 100)

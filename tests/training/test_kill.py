"""A run that is killed again and again ends exactly like one that was left alone."""

import random
import signal
import subprocess
import sys
import time

from statetrace.runs import Run
from statetrace.training.loop import train
from tests.training.conftest import TOY, Recorder, flags, toy
from tests.training.test_loop import assert_same_run

SETTINGS = {"steps": 60, "checkpoint_every": 7, "evaluate_every": 10}
KILLS = 3


def last_step(run: Run) -> int:
    return max((record["step"] for record in run.metrics()), default=-1)


def test_sigkill_at_random_steps(tmp_path):
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    train(toy(**SETTINGS), whole, Recorder())
    command = [sys.executable, "-m", "statetrace", "train", "--resume", "--out", str(killed.path)]
    command += flags(TOY | SETTINGS)
    chance = random.Random()  # no seed: another moment every time
    moments = sorted(chance.sample(range(1, 60), KILLS))
    for moment in moments:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and last_step(killed) < moment:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        with process:
            quicker = process.wait() == 0  # than this process, on a busy machine
            assert quicker or process.returncode == -signal.SIGKILL, process.stderr.read()
        if quicker:
            break
    else:
        subprocess.run(command, check=True, capture_output=True)
    assert_same_run(whole, killed)
    *broken, last = (sitting.get("ended") for sitting in killed.info["sessions"])
    assert broken or quicker  # who was killed left the beginning of a sitting
    assert set(broken) <= {None}
    assert last == "finished"
    lines = (killed.path / "metrics.jsonl").read_text()
    assert lines == (whole.path / "metrics.jsonl").read_text()

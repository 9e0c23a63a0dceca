"""A forked process is like a new one, as far as whoever starts it can tell."""

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import atexit, json, os, signal, sys
atexit.register(print, "the end")
print(json.dumps([sys.argv, __name__, os.getcwd(), sys.path[0], os.environ["MINE"], "HOME" in
    os.environ, sys.stdin.read(), os.getsid(0) == os.getpid()]))
print("a problem", file=sys.stderr)
{end}
"""
ENDS = {
    "pass": 0,
    "sys.exit(3)": 3,
    "sys.exit('no')": 1,
    "raise ValueError": 1,
    "os.kill(os.getpid(), 9)": -signal.SIGKILL,
    "os.kill(os.getpid(), signal.SIGTERM)": -signal.SIGTERM,
    "sys.stdout.flush(); os.abort()": -signal.SIGABRT,
}


@pytest.mark.skipif(sys.platform != "linux", reason="all processes are new there")
@pytest.mark.parametrize("end", ENDS)
def test_a_script_does_the_same(tmp_path, end):
    (tmp_path / "script.py").write_text(SCRIPT.replace("{end}", end))
    here = tmp_path / "here"
    here.mkdir()
    forked, new = (
        subprocess.run(
            [sys.executable, str(tmp_path / "script.py"), "a", "b c"],
            cwd=here, env={"MINE": "x"} | choice, input="typed", capture_output=True, text=True,
            start_new_session=end == "pass",
        )
        for choice in ({}, {"STATETRACE_FORK": "0"})
    )  # fmt: skip
    assert forked.returncode == new.returncode == ENDS[end]
    assert forked.stdout == new.stdout
    assert forked.stderr.splitlines()[:1] == new.stderr.splitlines()[:1]


def test_it_can_be_waited_for_and_ended():
    command = [sys.executable, "-m", "statetrace", "explore", "zoo:s3-associative", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("http://")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode in (0, 130)

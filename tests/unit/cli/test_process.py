"""The end of the process of ``rivet-dagster``."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys
from rivet_dagster.cli import main as command_line, process

class Object:
    def __del__(self):
        print("taken apart")

def main():
    atexit.register(print, "cleaned up")
    print("printed", end="")
    {end}

kept = Object()
kept.itself = kept
command_line.main = main
sys.exit(process.run_program())
"""


@pytest.mark.parametrize(
    ("end", "code", "printed"),
    [("return 7", 7, "printedcleaned up\n"), ("raise SystemExit(3)", 3, "printedcleaned up\ntaken apart\n")],
)
def test_it_ends_with_its_code_after_all_have_cleaned_up(end, code, printed):
    """And takes no objects apart, but where the program did not return."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM.format(end=end)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, printed, "")


def test_output_that_nobody_can_take_is_told():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(end="return 0")], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode != 0
    assert "No space left on device" in ended.stderr


def test_an_interrupt_while_it_is_imported():
    program = """
import sys
from rivet_dagster.cli import process

class Interrupted:
    def find_spec(self, name, *_):
        if name == "rivet_dagster.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
sys.exit(process.run_program())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")

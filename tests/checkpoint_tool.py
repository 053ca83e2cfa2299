"""Runs the C++ program checkpoint_tool, which the build puts beside the other binaries."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(*arguments, status=0):
    """Its standard output, or its standard error where another exit status than 0 is expected."""
    build = pathlib.Path(os.environ.get("GRILLE_BUILD_DIR", ROOT / "build"))
    program = build / "bin" / "checkpoint_tool"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr

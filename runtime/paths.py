"""Where the package's own files lie: side by side, in a checkout and in the installed package alike."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "runtime" / "csrc"
GENERATED = ROOT / "generated"

"""Builds Krafla for other machines: `python build.py --target aarch64-linux`. See --help."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from krafla.runtime.cmd_build import main

if __name__ == "__main__":
    main()

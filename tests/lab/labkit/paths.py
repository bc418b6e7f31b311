# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Where things are: the checkout, its build directory, the cache outside the checkout."""

import os
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
TOP = LAB.parent.parent
BUILD = TOP / "build"
PROVIDER = BUILD / "provider"


def cache() -> Path:
    """The folder for kernels, which outlives the checkout."""
    if "METAROCE_CACHE" in os.environ:
        path = Path(os.environ["METAROCE_CACHE"])
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache"
        path = Path(home) / "metaroce"
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()

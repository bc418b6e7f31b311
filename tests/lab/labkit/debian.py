# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debian's packages: which version is current, fetch one, unpack it."""

import re
import subprocess
from pathlib import Path

from .paths import LAB
from .shell import LabError, output, say


def install(*groups: str) -> None:
    """Install the packages of some groups of tests/lab/deps."""
    if subprocess.run([str(LAB / "deps"), *groups], check=False).returncode != 0:
        raise LabError(f"cannot install the packages of {' '.join(groups)}")


def candidate(package: str) -> str:
    """The version that apt would install, or an empty string."""
    found = re.search(r"^  Candidate: (\S+)$", output(["apt-cache", "policy", package]), re.M)
    return found.group(1) if found and found.group(1) != "(none)" else ""


def depends(package: str, pattern: str) -> str:
    """The first dependency of a package that matches the pattern, or an empty string."""
    found = re.search(rf"^ *\|?Depends: ({pattern})$", output(["apt-cache", "depends", package]), re.M)
    return found.group(1) if found else ""


def refresh() -> None:
    """Renew apt's lists, with the security suite that brings the newest kernels."""
    if subprocess.run([str(LAB / "deps"), "--refresh"], check=False).returncode != 0:
        say("apt's package lists could not be renewed; going on with those that are there")


def fetch(packages: list, folder: Path) -> list:
    """Download packages into a folder; the list of files. A list that is out of date is renewed once."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *packages]
    for last in (False, True):
        done = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            return sorted(folder.glob("*.deb"))
        if last:
            break
        refresh()
    raise LabError(f"cannot download {' '.join(packages)}:\n{done.stderr.strip()}")


def unpack(debs: list, root: Path) -> None:
    for deb in debs:
        subprocess.run(["dpkg", "-x", str(deb), str(root)], check=True)

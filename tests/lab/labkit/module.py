# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The module: built for a kernel, and put among that kernel's own modules."""

import os
import shutil
import subprocess
from pathlib import Path

from .kernels import Prepared
from .paths import BUILD, LAB, TOP
from .shell import LabError, locked

SOURCE = TOP / "kernel"


def build(prepared: Prepared) -> Path:
    """Build kernel/ for one kernel, warnings being errors; the path of the module."""
    if not (SOURCE / "Kbuild").exists():
        raise LabError(f"{SOURCE} holds no Kbuild")
    kernel = prepared.kernel
    copy = BUILD / "lab" / kernel.name / "module"
    copy.mkdir(parents=True, exist_ok=True)
    with locked(copy.parent / ".lock"):
        # Every kernel has a copy of its own. By checksum and without times: a file that changed is new, all others stay old.
        subprocess.run(["rsync", "-rlp", "--checksum", "--delete", f"--filter=merge {LAB}/module-files",
                        f"{SOURCE}/", f"{copy}/"], check=True)
        argv = ["nice", "-n", "5", "make", "-s", f"-j{os.cpu_count()}", "-C", str(prepared.kbuild), f"M={copy}",
                "KCFLAGS=-Werror", "W=1", "modules"]
        if kernel.uml:
            argv.insert(-1, "ARCH=um")
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"the module does not build for {kernel.name}:\n{done.stdout}")
        ours = [line for line in done.stdout.splitlines() if "warning:" in line.lower()]
        if ours:
            raise LabError(f"the module builds for {kernel.name} with warnings:\n" + "\n".join(ours))
    return copy / "metaroce.ko"


def userspace() -> None:
    """Build the provider and the tools of the tests, which the guest takes from build/."""
    done = subprocess.run(["nice", "-n", "5", "make", "-s", "--no-print-directory", "-C", str(TOP), "provider", "tools"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"provider and tools do not build:\n{done.stdout}")


def tree(prepared: Prepared, module) -> Path:
    """The folder that the guest sees as /lib/modules/RELEASE: the kernel's modules, and ours (None: without) under extra/."""
    root = BUILD / "lab" / prepared.kernel.name / ("modules" if module else "modules-stock")
    merged = root / "lib/modules" / prepared.release
    ours = merged / "extra/metaroce.ko"
    with locked(root.parent / ".lock"):
        stamp = f"{prepared.folder}"
        known = (root / "from").read_text(encoding="ascii") if (root / "from").exists() else ""
        if known == stamp and (not module or (ours.exists() and ours.stat().st_mtime >= module.stat().st_mtime)):
            return merged
        fresh = root.with_name(f".{root.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        within = fresh / merged.relative_to(root)
        within.mkdir(parents=True)
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            if (prepared.modules / name).exists():
                shutil.copy(prepared.modules / name, within / name)
        if (prepared.modules / "kernel").is_dir():
            (within / "kernel").symlink_to(prepared.modules / "kernel")
        if module:
            (within / "extra").mkdir()
            subprocess.run(["strip", "--strip-debug", "-o", str(within / "extra/metaroce.ko"), str(module)], check=True)
        subprocess.run(["depmod", "-b", str(fresh), prepared.release], check=True)
        (fresh / "from").write_text(stamp, encoding="ascii")
        shutil.rmtree(root, ignore_errors=True)
        os.rename(fresh, root)
    return merged

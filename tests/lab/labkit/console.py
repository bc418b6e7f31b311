# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Reading what the kernel says: any warning, report or leak is a failure, except the lines of the file console-allow."""

import re
from pathlib import Path

from .paths import LAB

TROUBLE = re.compile("|".join((
    r"WARNING:", r"BUG:", r"KASAN", r"KCSAN", r"UBSAN", r"kernel BUG at",
    r"possible (circular|recursive|irq lock|deadlock)", r"inconsistent lock state", r"suspicious RCU",
    r"bad unlock balance", r"held lock freed", r"lock held when returning", r"trying to register non-static key",
    r"ODEBUG", r"\bOops\b", r"general protection", r"Unable to handle", r"unable to handle",
    r"soft lockup", r"hard LOCKUP", r"self-detected stall", r"detected stalls", r"blocked for more than",
    r"scheduling while atomic", r"sleeping function called", r"refcount_t:", r"list_(add|del) corruption",
    r"unregister_netdevice: waiting", r"Kernel panic", r"segfault at", r"Out of memory", r"page allocation failure",
    r"bad page state", r"Bad rss-counter", r"workqueue: .*hogged",
)))


def allowed() -> list:
    """The patterns of known harmless lines."""
    patterns = []
    for line in (LAB / "console-allow").read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            patterns.append(re.compile(line))
    return patterns


def scan(text: str) -> str:
    """The first report in a console log with some lines around it; an empty string if there is none."""
    lines = text.splitlines()
    harmless = allowed()
    for number, line in enumerate(lines):
        if TROUBLE.search(line) and not any(pattern.search(line) for pattern in harmless):
            return "\n".join(lines[max(0, number - 3):number + 45])
    return ""


def leaks(report: str) -> str:
    """The entries of a kmemleak report. UML gives them no stack, so that none can be told to be another's: the lab's kernels have none."""
    return report if "unreferenced object" in report else ""


def messages(folder: Path) -> str:
    """A finished or broken run's kernel messages: the ring buffer if it was saved, and the console if not."""
    for name in ("dmesg", "console"):
        try:
            text = (folder / name).read_text(errors="replace")
        except OSError:
            continue
        if text:
            return text
    return ""

# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Results of tests: TAP as the selftests print it, XML as GoogleTest writes it."""

import dataclasses
import re
import xml.etree.ElementTree
from pathlib import Path

POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*?)\s*(?:#\s*(SKIP|TODO)\b\s*(.*))?$", re.I)
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#\s*SKIP\S*\s*(.*))?$", re.I)
KSELFTEST_SKIP = 4  # exit status of a kselftest that could not run
ENDS = {124: "stopped, it took too long", 137: "killed, it took too long", 125: "the guest ended early"}


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Parser:
    """Takes one program's output line by line; notable holds what a reader should see."""

    def __init__(self):
        self.tally = Tally()
        self.notable = []
        self.comments = []
        self.plan = None

    def line(self, text: str) -> None:
        plan, point = PLAN.match(text), POINT.match(text)
        if plan:
            # several programs in one stream have a plan each
            self.plan = (self.plan or 0) + int(plan.group(1))
            if plan.group(1) == "0":
                self.skip(plan.group(2) or "no reason given")
        elif point:
            self.point(point)
            self.comments = []
        elif text.startswith("Bail out!"):
            self.fail(text)
        else:
            self.comments = [*self.comments, text][-30:]

    def point(self, found) -> None:
        negative, _, name, directive, reason = found.groups()
        if directive and directive.upper() == "SKIP":
            self.skip(f"{name}: {reason}")
        elif negative and not directive:
            self.notable += [f"    {line}" for line in self.comments]
            self.fail(name)
        else:
            self.tally.passed += 1

    def skip(self, why: str) -> None:
        self.tally.skipped += 1
        self.notable.append(f"    skipped: {why}")

    def fail(self, why: str) -> None:
        self.tally.failed += 1
        self.notable.append(f"    FAILED: {why}")

    def end(self, status: int) -> None:
        """The program has ended: what its exit status says that its points did not."""
        points = self.tally.passed + self.tally.failed + self.tally.skipped
        if points == 0 and status == 0:
            self.tally.passed = 1
        elif points == 0 and status == KSELFTEST_SKIP:
            self.skip((self.comments or ["no reason given"])[-1])
        elif status != 0 and self.tally.failed == 0:
            self.notable += [f"    {line}" for line in self.comments]
            self.fail(ENDS.get(status, f"exit status {status}"))
        elif status == 0 and self.plan is None:
            self.fail("no plan at the end: it stopped half-way")
        elif self.plan and self.plan != points and self.tally.failed == 0:
            self.fail(f"{self.plan} points planned, {points} seen")


def gtest(path: Path):
    """Tally, seconds and notable lines of one XML report of GoogleTest."""
    tally, notable = Tally(), []
    root = xml.etree.ElementTree.parse(path).getroot()
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failures = case.findall("failure")
        if failures:
            tally.failed += 1
            notable += [f"    FAILED: {name}", *("      " + (f.text or "").strip().replace("\n", "\n      ") for f in failures)]
        elif case.get("status") == "notrun" or case.get("result") in ("suppressed", "skipped"):
            tally.skipped += 1
            reason = next((e.get("message") for e in case.findall("skipped")), None) or "disabled"
            notable.append(f"    skipped: {name}: {reason.strip()}")
        else:
            tally.passed += 1
    return tally, float(root.get("time", 0)), notable

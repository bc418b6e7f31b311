#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Plots of the simulator's results: plots.py FOLDER reads results.json and series.json there, writes SVG and PNG."""

import json
import sys
from pathlib import Path

try:
    import matplotlib
except ImportError:
    sys.exit("plots.py: needs matplotlib (Debian: python3-matplotlib), for axes, legends and two formats at once")
matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "metaroce"  # the same file for the same numbers
import matplotlib.pyplot as plt  # noqa: E402


class Results:
    def __init__(self, folder: Path):
        self.rows = json.loads((folder / "results.json").read_text())
        self.series = json.loads((folder / "series.json").read_text())
        self.folder = folder

    def values(self, experiment: str, metric: str) -> dict:
        """system -> list of (loss in per cent, value), sorted."""
        found = {}
        for r in self.rows:
            if r["experiment"] == experiment and r["metric"] == metric and r["value"] is not None:
                found.setdefault(r["system"], []).append((r["loss_percent"], r["value"]))
        return {system: sorted(points) for system, points in found.items()}

    def experiments(self, prefix: str) -> list:
        return list(dict.fromkeys(r["experiment"] for r in self.rows if r["experiment"].startswith(prefix)))

    def save(self, figure, name: str) -> None:
        for suffix in ("svg", "png"):
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(self.folder / f"{name}.{suffix}", metadata=metadata, dpi=110)
        plt.close(figure)


def throughput_against_loss(res: Results, prefix: str, name: str) -> None:
    experiments = [e for e in res.experiments(prefix) if len(next(iter(res.values(e, "goodput").values()))) > 1]
    if not experiments:
        return
    columns = min(3, len(experiments))
    rows = (len(experiments) + columns - 1) // columns
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.6 * rows), squeeze=False, layout="constrained")
    for axis, experiment in zip(axes.flat, experiments):
        for system, points in res.values(experiment, "goodput").items():
            axis.plot([max(loss, 1e-4) for loss, _ in points], [v for _, v in points], marker="o", label=system)
        axis.set(title=experiment, xscale="log", xlabel="loss, % (leftmost: none)", ylabel="Gb/s per sender", ylim=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    for axis in list(axes.flat)[len(experiments):]:
        axis.remove()
    res.save(figure, name)


def completion_times(res: Results) -> None:
    experiments = res.experiments("leaf-spine")
    if not experiments:
        return
    figure, axes = plt.subplots(2, len(experiments), figsize=(3.2 * len(experiments), 6), squeeze=False, layout="constrained")
    for column, experiment in enumerate(experiments):
        p50, p99 = res.values(experiment, "fct_p50"), res.values(experiment, "fct_p99")
        goodput = res.values(experiment, "goodput")
        systems = list(p50)
        x = range(len(systems))
        axes[0][column].bar([i - 0.2 for i in x], [p50[s][0][1] for s in systems], 0.4, label="median")
        axes[0][column].bar([i + 0.2 for i in x], [p99[s][0][1] for s in systems], 0.4, label="p99")
        axes[0][column].set(yscale="log", title=experiment.removeprefix("leaf-spine-"), ylabel="completion, us")
        axes[0][column].legend(fontsize=8)
        axes[1][column].bar(x, [goodput[s][0][1] for s in systems], 0.6)
        axes[1][column].set(ylabel="Gb/s per sender")
        for axis in axes[:, column]:
            axis.set_xticks(list(x), systems, rotation=40, ha="right", fontsize=8)
    res.save(figure, "fct")


def incast(res: Results) -> None:
    for experiment in dict.fromkeys(s["experiment"] for s in res.series if s["experiment"].startswith("incast")):
        figure, axes = plt.subplots(2, 1, figsize=(8, 7), sharex=True, layout="constrained")
        for s in (s for s in res.series if s["experiment"] == experiment):
            if s["metric"] not in ("queue", "fairness") or not s["points"]:
                continue
            axis = axes[0] if s["metric"] == "queue" else axes[1]
            scale = s["bdp_bytes"] if s["metric"] == "queue" else 1
            first = next((us for us, v in s["points"] if v > 0), s["points"][0][0])
            axis.plot([us - first for us, _ in s["points"]], [v / scale for _, v in s["points"]], label=s["system"], lw=1)
        axes[0].set(ylabel="queue at the receiver, BDP", title=experiment, yscale="symlog")
        axes[0].axhline(2, color="grey", ls=":")
        axes[1].set(ylabel="Jain index, 8 samples", xlabel="us since the first packets", ylim=(0, 1.02), xlim=(0, 1000 if "MiB" in experiment else 300))
        axes[1].axhline(0.95, color="grey", ls=":")
        axes[0].legend(fontsize=8)
        res.save(figure, experiment)


def planes(res: Results) -> None:
    rows = [r for r in res.rows if r["experiment"] == "planes" and r["metric"] in ("goodput", "linearity")]
    failures = [s for s in res.series if s["metric"] == "goodput" and not s["experiment"].startswith("incast")]
    if not rows and not failures:
        return
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    goodput = [(r["planes"], r["value"]) for r in rows if r["metric"] == "goodput"]
    axes[0].plot([k for k, _ in goodput], [v for _, v in goodput], marker="o", label="goodput")
    axes[0].plot([k for k, _ in goodput], [goodput[0][1] * k for k, _ in goodput] if goodput else [], ls=":", label="linear")
    axes[0].set(xlabel="planes of 100 Gb/s", ylabel="Gb/s per sender")
    axes[0].legend()
    for s in failures:
        axes[1].plot([us for us, _ in s["points"]], [v / 1000 for _, v in s["points"]], label=s["experiment"], lw=1)
    axes[1].set(xlabel="us; fault from 300 to 1300", ylabel="Tb/s, 64 nodes", ylim=0)
    axes[1].legend(fontsize=8)
    res.save(figure, "planes")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: plots.py FOLDER")
    res = Results(Path(sys.argv[1]))
    throughput_against_loss(res, "p2p", "loss-p2p")
    throughput_against_loss(res, "ring", "loss-ring")
    throughput_against_loss(res, "all-to-all", "loss-all-to-all")
    completion_times(res)
    incast(res)
    planes(res)


if __name__ == "__main__":
    main()

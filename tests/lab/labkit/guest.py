# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Booting a kernel, running one command in it, and judging what came of it."""

import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import console, kernels, module
from .kernels import Prepared
from .paths import BUILD, LAB, PROVIDER, TOP
from .shell import LabError, say, tail

KEPT_RUNS = 12
TROUBLE_STATUS = 99
TIMEOUT_STATUS = 124
DIED_STATUS = 125


@dataclasses.dataclass
class Options:
    memory: str = ""
    cpus: int = 0
    timeout: float = 300
    topology: str = "none"
    mtu: int = 9000
    with_module: bool = True
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Result:
    status: int            # of the command, or one of the *_STATUS above
    folder: Path           # console, dmesg, output, out/
    seconds: float
    report: str = ""       # why the run failed although the command may have passed


def run(prepared: Prepared, command: list, options: Options, on_output) -> Result:
    """Boot, run, judge. on_output gets the command's output piece by piece, as bytes."""
    ko = module.build(prepared) if options.with_module else None
    modules = module.tree(prepared, ko)
    job = new_job(prepared)
    write_job(prepared, job, modules, command, options)
    start = time.monotonic()
    timed_out = supervise(argv(prepared, job, options), job, options.timeout, on_output)
    return judge(job, timed_out, options, time.monotonic() - start)


def new_job(prepared: Prepared) -> Path:
    runs = BUILD / "lab" / prepared.kernel.name / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for old in sorted(runs.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_RUNS]:
        if time.time() - old.stat().st_mtime > 3600:
            shutil.rmtree(old, ignore_errors=True)
    job = runs / f"{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
    while job.exists():
        job = job.with_name(job.name + "+")
    (job / "out").mkdir(parents=True)
    if re.search(r"[\s,]", str(job)):
        raise LabError(f"the kernel's command line cannot name {job}: no blank or comma may stand in the checkout's path")
    return job


def write_job(prepared: Prepared, job: Path, modules: Path, command: list, options: Options) -> None:
    kernel = prepared.kernel
    environment = {
        "LAB_KERNEL": kernel.name, "LAB_ARCH": kernel.arch, "LAB_TOP": str(TOP), "LAB_DIR": str(LAB),
        "LAB_OUT": str(job / "out"), "LAB_MODULES": str(modules), "LAB_PROVIDER": str(PROVIDER),
        "LAB_MHZ": kernels.cpu_mhz(), "LAB_MTU": str(options.mtu), "LAB_SCALE": str(kernel.scale),
        "LAB_SLOWNESS": str(kernel.slowness), **options.environment}
    (job / "env").write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()))
    lines = []
    if options.topology == "pair":
        lines.append(f'. "$LAB_DIR/guest.sh" && hosts_up 2 {options.mtu} || exit')
    elif options.topology == "peers":
        lines.append(f'. "$LAB_DIR/guest.sh" && peers_up {options.mtu} || exit')
    lines.append("exec " + shlex.join(command))
    (job / "command").write_text("\n".join(lines) + "\n")


def argv(prepared: Prepared, job: Path, options: Options) -> list:
    kernel = prepared.kernel
    memory = options.memory or kernel.memory
    ours = [f"lab.job={job}", f"lab.dir={LAB}", "loglevel=5", "log_buf_len=4M", "oops=panic", "softlockup_panic=1"]
    if kernel.uml:
        uml_dir = job / "uml"
        return [str(prepared.image), f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
                f"init={LAB}/init/uml", "con=null", "ssl=null", "con0=fd:0,fd:1", f"uml_dir={uml_dir}/", f"umid={job.name}", *ours]
    return ["qemu-system-x86_64", *accelerator(prepared), "-m", memory, "-smp", str(options.cpus or kernel.cpus),
            "-machine", "q35", "-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot", "-serial", f"file:{job}/console",
            "-kernel", str(prepared.image), "-initrd", str(kernels.initrd(prepared)),
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            "-virtfs", f"local,path={job},mount_tag=job,security_model=none,multidevs=remap",
            "-append", " ".join(["console=ttyS0", "panic=-1", "mitigations=off", "quiet", *ours])]


def accelerator(prepared: Prepared) -> list:
    """KVM where it works, which a /dev/kvm alone does not prove: the CPU must say so and a kernel must come up."""
    software = ["-accel", "tcg,thread=multi", "-cpu", "max"]
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        if not re.search(r"^flags\s*:.*\b(vmx|svm)\b", file.read(), re.M) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return software
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    verdict = BUILD / "lab" / "kvm"
    if not verdict.exists() or boot not in verdict.read_text(encoding="ascii"):
        verdict.write_text(f"{boot} {'yes' if probe(prepared) else 'no'}\n", encoding="ascii")
    return ["-accel", "kvm", "-cpu", "host"] if verdict.read_text(encoding="ascii").endswith("yes\n") else software


def probe(prepared: Prepared) -> bool:
    try:
        done = subprocess.run(["qemu-system-x86_64", "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512M", "-display", "none",
                               "-monitor", "none", "-nic", "none", "-no-reboot", "-serial", "stdio",
                               "-kernel", str(prepared.image), "-initrd", str(kernels.initrd(prepared)),
                               "-append", "console=ttyS0 panic=-1 lab.probe"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return False
    return b"lab: probe ok" in done.stdout


def memory_folder() -> dict:
    """UML keeps its memory in a file that it maps executable; /dev/shm may forbid that."""
    try:
        usable = not os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC and os.access("/dev/shm", os.W_OK)
    except OSError:
        usable = False
    return {"TMPDIR": "/dev/shm" if usable else "/tmp"}


def supervise(args: list, job: Path, timeout: float, on_output) -> bool:
    """Run the guest to its end, passing its output on as it comes; True if it had to be killed."""
    start = time.monotonic()
    opened = "ab" if args[0].startswith("qemu") else "wb"
    with open(job / "console", opened) as log, open(job / "output", "w+b") as output:
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd="/",
                                   env={**os.environ, **memory_folder()}, start_new_session=True)
        try:
            while True:
                ended = process.poll() is not None
                piece = output.read(1 << 16)
                if piece:
                    on_output(piece)
                elif ended:
                    return False
                elif time.monotonic() - start > timeout:
                    return True
                else:
                    time.sleep(0.05)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def judge(job: Path, timed_out: bool, options: Options, seconds: float) -> Result:
    """What the run is worth: how the guest ended first, then what its kernel had to say."""
    result = Result(0, job, seconds)
    if timed_out:
        result.status = TIMEOUT_STATUS
        result.report = f"killed after {options.timeout:.0f} s"
    elif not (job / "status").exists():
        result.status = DIED_STATUS
        result.report = "the guest ended early"
    else:
        result.status = int((job / "status").read_text(encoding="ascii"))
    ended = result.report
    trouble = console.scan(console.messages(job))
    leaks = console.leaks((job / "kmemleak").read_text(errors="replace")) if (job / "kmemleak").exists() else ""
    if trouble:
        result.report = f"the kernel reports trouble:\n{trouble}\n{ended}"
    elif leaks:
        result.report = f"kmemleak reports:\n{leaks}"
    elif ended:
        result.report = f"{ended}; the console ends with:\n{tail(job / 'console', 50)}"
    if (trouble or leaks) and not ended:
        result.status = TROUBLE_STATUS
    return result


def to_stdout(piece: bytes) -> None:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def report(result: Result) -> None:
    if result.report:
        say(result.report)
    say(f"exit status {result.status} after {result.seconds:.0f} s; {result.folder}")

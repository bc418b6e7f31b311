# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The lab's kernels: which there are, how each gets into the cache.

One kernel is one folder of the cache, NAME-VERSION-KEY, complete when it holds the file "ready"; the link NAME points at the
current one. KEY is a hash of what the folder is made from, so a changed configuration or a security update makes a new folder.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from . import debian
from .paths import LAB, cache
from .shell import LabError, locked, logged, output, say

FORMAT = 1  # of a kernel's folder; part of the key
SOURCE = "linux-source-6.12"


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str
    arch: str                # as the kernel's makefile names it
    meta: str = ""           # stock kernels: the package that depends on the current image
    fragments: tuple = ()    # kernels from source: files of tests/lab/config
    targets: tuple = ()
    memory: str = "2G"
    cpus: int = 2
    slowness: int = 1        # times are multiplied by this
    scale: int = 100         # percentage of iterations that a test should run here

    @property
    def uml(self) -> bool:
        return self.arch == "um"

    def key(self) -> str:
        lines = [str(FORMAT), self.arch, *self.targets]
        if self.uml:
            lines.append(patch_digest())
        for fragment in self.fragments:
            text = (LAB / "config" / f"{fragment}.config").read_text(encoding="ascii")
            lines += sorted(line for line in text.splitlines() if line.startswith("CONFIG_"))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


KERNELS = {kernel.name: kernel for kernel in (
    Kernel("uml", "um", fragments=("common", "uml"), targets=("linux", "modules"), memory="3G", cpus=1),
    Kernel("uml-debug", "um", fragments=("common", "uml", "debug", "uml-debug"), targets=("linux", "modules"),
           memory="3G", cpus=1, slowness=3, scale=20),
    Kernel("6.1", "x86_64", meta="linux-image-amd64", slowness=4, scale=10),
    Kernel("6.12", "x86_64", meta="linux-image-6.12-amd64", slowness=4, scale=10),
    Kernel("smp-debug", "x86_64", fragments=("common", "debug", "smp-debug"), targets=("bzImage", "modules"),
           memory="3G", slowness=8, scale=2),
)}


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A kernel that is complete in the cache."""
    kernel: Kernel
    folder: Path
    release: str  # what uname -r says

    @property
    def image(self) -> Path:
        return self.folder / ("build/linux" if self.kernel.uml else "vmlinuz")

    @property
    def kbuild(self) -> Path:
        """What make -C takes to build a module."""
        return self.folder / "build"

    @property
    def modules(self) -> Path:
        return self.folder / "root/lib/modules" / self.release


def named(name: str) -> Kernel:
    if name not in KERNELS:
        raise LabError(f"no kernel {name}; there are: {' '.join(KERNELS)}")
    return KERNELS[name]


def load(kernel: Kernel, folder: Path):
    try:
        ready = json.loads((folder / "ready").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return Prepared(kernel, folder.resolve(), ready["release"])


def current(kernel: Kernel) -> Prepared:
    """The kernel as it stands in the cache; prepared now if it is not there or made from something else."""
    debian.install("lab")
    found = load(kernel, cache() / kernel.name)
    if found and found.folder.name.endswith(f"-{kernel.key()}"):
        return found
    return prepare(kernel)


def prepare(kernel: Kernel) -> Prepared:
    """Bring the newest version of a kernel into the cache."""
    debian.install("lab")
    with locked(cache() / f".{kernel.name}.lock"):
        package = kernel.meta or SOURCE
        version = debian.candidate(package)
        if not version:
            debian.refresh()
            version = debian.candidate(package)
        if not version:
            raise LabError(f"no package {package} in apt's lists; the lab needs Debian 12 with its security suite")
        folder = cache() / f"{kernel.name}-{plain(version)}-{kernel.key()}"
        if not load(kernel, folder):
            debian.install("build" if kernel.meta else "kernel")
            say(f"{kernel.name}: preparing {version} in {folder}")
            release = stock(kernel, folder) if kernel.meta else from_source(kernel, version, folder)
            write_atomically(folder / "ready", json.dumps({"release": release, "version": version}))
        link = cache() / kernel.name
        fresh = cache() / f".{kernel.name}.link"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder.name)
        os.replace(fresh, link)
        done = load(kernel, folder)
        say(f"{kernel.name}: {done.release} is ready")
        return done


def plain(version: str) -> str:
    return re.sub(r"[^0-9A-Za-z.-]", "-", version)


def write_atomically(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="ascii")
    os.replace(fresh, path)


def stock(kernel: Kernel, folder: Path) -> str:
    """Debian's own image, modules and headers, unpacked, nothing installed on the host."""
    image = debian.depends(kernel.meta, r"linux-image-\S+")
    if not image:
        raise LabError(f"{kernel.meta} depends on no linux-image package")
    release = image.removeprefix("linux-image-")
    headers = f"linux-headers-{release}"
    wanted = [image, headers, f"linux-headers-{release.removesuffix('-amd64')}-common",
              debian.depends(headers, r"linux-kbuild-\S+")]
    fresh = folder.with_name(f".{folder.name}.new")
    for old in (fresh, folder):
        shutil.rmtree(old, ignore_errors=True)
    say(f"{kernel.name}: downloading {' '.join(wanted)}")
    root = fresh / "root"
    debian.unpack(debian.fetch(wanted, fresh / "packages"), root)
    shutil.rmtree(fresh / "packages")
    if (root / "usr/lib/modules").is_dir() and not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    (fresh / "vmlinuz").symlink_to(f"root/boot/vmlinuz-{release}")
    (fresh / "build").symlink_to(f"root/usr/src/{headers}")
    # the headers' makefile names the common part by the path it would be installed at
    makefile = root / "usr/src" / headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{folder / 'root' / 'usr/src'}/"))
    os.rename(fresh, folder)
    return release


def patches() -> list:
    return sorted((LAB / "patches").glob("*.patch"))


def patch_digest() -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in patches())).hexdigest()[:8]


def source(version: str) -> Path:
    """The kernel source of Debian with the lab's patches, unpacked once for all kernels built from it."""
    tree = cache() / "src" / f"linux-{plain(version)}-{patch_digest()}"
    with locked(cache() / ".src.lock"):
        if not tree.exists():
            say(f"downloading and unpacking {SOURCE} {version}")
            fresh = tree.with_name(f".{tree.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            debs = debian.fetch([f"{SOURCE}={version}"], fresh / "packages")
            debian.unpack(debs, fresh / "packages")
            (fresh / "tree").mkdir()
            subprocess.run(["tar", "-xJf", str(fresh / f"packages/usr/src/{SOURCE}.tar.xz"), "-C", str(fresh / "tree"),
                            "--strip-components=1"], check=True)
            for patch in patches():
                subprocess.run(["patch", "-p1", "-s", "-d", str(fresh / "tree"), "-i", str(patch)], check=True)
            os.rename(fresh / "tree", tree)
            shutil.rmtree(fresh)
    return tree


def from_source(kernel: Kernel, version: str, folder: Path) -> str:
    """Configure and build. An interrupted build goes on where it stopped."""
    tree = source(version)
    build = folder / "build"
    build.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    fragment = folder / "fragment.config"
    fragment.write_text("".join((LAB / f"config/{name}.config").read_text() for name in kernel.fragments), encoding="ascii")
    make = ["nice", "-n", "5", "make", "-C", tree, f"ARCH={kernel.arch}", f"O={build}"]
    jobs = f"-j{os.cpu_count()}"
    # one heavy build at a time: two at once only make both late
    with locked(cache() / ".compile.lock"):
        say(f"{kernel.name}: building the kernel, some minutes; log {log}")
        if not (build / ".config").exists():
            logged([*make, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"], log, f"{kernel.name}: configuring")
        logged([*make, jobs, *kernel.targets], log, f"{kernel.name}: building")
        shutil.rmtree(folder / "root", ignore_errors=True)
        logged([*make, f"INSTALL_MOD_PATH={folder / 'root'}", "modules_install"], log, f"{kernel.name}: modules")
    release = (build / "include/config/kernel.release").read_text(encoding="ascii").strip()
    check_config(kernel, build / ".config", fragment)
    if not kernel.uml:
        shutil.copy(build / "arch/x86/boot/bzImage", folder / "vmlinuz")
    for path in build.rglob("*.o"):
        if path.relative_to(build).parts[0] not in ("scripts", "tools"):
            path.unlink()
    return release


def check_config(kernel: Kernel, config: Path, fragment: Path) -> None:
    """Name the options that Kconfig refused: a dependency is missing, or the option is gone."""
    have = set(config.read_text(encoding="ascii").splitlines())
    refused = []
    for line in fragment.read_text(encoding="ascii").splitlines():
        if line.startswith("CONFIG_") and not line.endswith("=n") and line not in have:
            refused.append(line)
    if refused:
        say(f"{kernel.name}: not in the configuration after all: {' '.join(refused)}")


def initrd(prepared: Prepared) -> Path:
    """The initial RAM disk of a QEMU kernel: busybox, what mounts the host's root over 9p, and init/qemu."""
    init = LAB / "init/qemu"
    tool = LAB / "mkinitrd"
    digest = hashlib.sha256(init.read_bytes() + tool.read_bytes()).hexdigest()[:8]
    path = prepared.folder / f"initrd-{digest}"
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        done = subprocess.run([str(tool), str(prepared.folder / "root"), prepared.release, str(init), str(fresh)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"cannot make the initial RAM disk:\n{done.stdout}")
        os.replace(fresh, path)
    return path


def cpu_mhz() -> str:
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)", output(["cat", "/proc/cpuinfo"]), re.M)
    return found.group(1) if found else "2600.000"

"""Compiles the modules that a replay spends its time in, where there is a C compiler.

Each of them is a plain Python module with a `.pxd` of the same name that gives its types. Where
nothing can be compiled swasim runs them as they stand, with the same results, slower.

The build runs this for a wheel and for an editable installation; `python hatch_build.py` compiles
in place. What is made on the way lies under `build/`.

Compiled modules use each other's C types, so they are all compiled or none is: one that is left
out, or older than its sources, would be imported beside modules that were made for another one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = (
    "swasim/runs.py",
    "swasim/allocator/core/pages.py",
    "swasim/allocator/core/swift.py",
    "swasim/allocator/core/swift_release.py",
    "swasim/sanitizer/entries.py",
    "swasim/sanitizer/shadow.py",
    "swasim/sanitizer/follow.py",
    "swasim/sanitizer/handout.py",
    "swasim/sanitizer/giveback.py",
    "swasim/sanitizer/steady.py",
    "swasim/plain.py",
    "swasim/lane.py",
)

DIRECTIVES = {
    "language_level": 3,
    # Annotations are for readers and type checkers; the types of C stand in the .pxd files.
    "annotation_typing": False,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}

# Without debugging information and symbols a module is a tenth of the size.
COMPILE_ARGS = ["-O3", "-g0"]
LINK_ARGS = ["-Wl,-s"] if sys.platform.startswith("linux") else []

CC = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
PLATFORM = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
PROBE = "#include <Python.h>\nPyMODINIT_FUNC PyInit_probe(void) { return NULL; }\n"
CIMPORT = re.compile(r"^ *(?:from +([\w.]+) +)?cimport +([\w., ]+)", re.MULTILINE)


class CannotCompileError(Exception):
    """This machine lacks something that compiling needs; nothing is wrong with the modules."""


class Compilation:
    """The compiled modules of one source tree, for the Python that runs this.

    Args:
        root: the folder of the project.
        modules: paths of the modules, relative to `root`.
    """

    def __init__(self, root: Path, modules: Iterable[str]) -> None:
        self.root = root
        self.modules = tuple(modules)
        self.work = root / "build"
        self.library = self.work / f"lib.{PLATFORM}"

    def in_place(self) -> list[Path]:
        """Where the compiled modules stand beside their sources."""
        return [self.root / compiled_name(module) for module in self.modules]

    def built(self) -> list[Path]:
        """Where they stand in the build folder."""
        return [self.library / compiled_name(module) for module in self.modules]

    def strays(self) -> list[Path]:
        """Compiled modules in the tree that are none of `modules`, which would hide their .py."""
        packages = {module.split("/")[0] for module in self.modules}
        found = {path for package in packages for path in (self.root / package).rglob("*" + SUFFIX)}
        return sorted(found.difference(self.in_place()))

    def outdated(self) -> list[str]:
        """Modules that stand compiled beside sources that were changed since."""
        stale = self.stale(self.in_place())
        return [module for module in stale if (self.root / compiled_name(module)).exists()]

    def stale(self, compiled: Iterable[Path]) -> list[str]:
        """Modules whose file in `compiled`, which goes with `modules`, is missing or too old."""
        pairs = zip(self.modules, compiled, strict=True)
        return [module for module, path in pairs if modified(path) < self.changed(module)]

    def changed(self, module: str) -> int:
        """When the module, its .pxd, or one that these cimport was last changed."""
        return max(map(modified, self.sources(module)))

    def sources(self, module: str) -> set[Path]:
        """What the compiled module is made of."""
        found = {self.root / module, Path(__file__)}
        ahead = [self.root / module.replace(".py", ".pxd")]
        while ahead:
            path = ahead.pop()
            if path not in found and path.exists():
                found.add(path)
                ahead += self.cimported(path)
        return found

    def cimported(self, pxd: Path) -> Iterator[Path]:
        """The .pxd files of the project that one names, where they would be."""
        for package, names in CIMPORT.findall(pxd.read_text(encoding="utf-8")):
            prefix = f"{package}." if package else ""
            for name in (package, *(prefix + part.split()[0] for part in names.split(",") if part)):
                yield self.root / (name.replace(".", "/") + ".pxd")

    def compile_in_place(self) -> None:
        """Bring the compiled modules beside their sources up to date.

        Raises:
            CannotCompileError: no compiler, no headers or no Cython; no compiled module is left.
            Exception: the modules cannot be compiled; compiled ones stay as they were.
        """
        for path in self.strays():
            path.unlink()
        if not self.stale(self.in_place()):
            return
        with self.locked() as started:
            try:
                self.bring_up_to_date(started)
            except CannotCompileError:
                self.remove()
                raise
            for source, target in zip(self.built(), self.in_place(), strict=True):
                if target.exists() and modified(target) >= modified(source):
                    os.utime(target, ns=(started, started))
                else:
                    put_in_place(source, target)

    def compile_apart(self) -> list[Path]:
        """Bring the compiled modules in the build folder up to date; says where they are."""
        with self.locked() as started:
            self.bring_up_to_date(started)
        return self.built()

    def remove(self) -> None:
        """Remove the compiled modules of this Python from the tree, so that the .py files run."""
        for path in self.in_place() + self.strays():
            path.unlink(missing_ok=True)

    def bring_up_to_date(self, started: int) -> None:
        """Compile into the build folder what is stale there.

        Files get the time at which this started: what was edited meanwhile counts as newer.
        """
        wanting = self.stale(self.built())
        if not wanting:
            return
        with contextlib.chdir(self.root):
            translate_and_compile(wanting, self.library)
        for module in wanting:
            os.utime(self.library / compiled_name(module), ns=(started, started))

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Keep other builds of this tree waiting; gives the time by the clock of the files."""
        self.work.mkdir(exist_ok=True)
        path = self.work / ".lock"
        with path.open("w") as lock:
            with contextlib.suppress(ImportError):  # elsewhere than on POSIX nobody waits
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            path.touch()
            yield modified(path)


def compiled_name(module: str) -> str:
    """`swasim/runs.py` as it is called when it is compiled for this Python."""
    return module.removesuffix(".py") + SUFFIX


def modified(path: Path) -> int:
    """When a file was changed, in nanoseconds; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def put_in_place(source: Path, target: Path) -> None:
    """Copy a file, under its name only when it is whole: a running Python may have it open."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy2(source, beside)
    beside.replace(target)


def translate_and_compile(modules: list[str], library: Path) -> None:
    """Compile modules of the current folder into `library`.

    Raises:
        CannotCompileError: as in `Compilation.compile_in_place`.
        Exception: Cython or the compiler refuses a module.
    """
    try:
        from Cython.Build import cythonize
        from setuptools import Extension
    except ImportError as error:
        missing = (error.name or "Cython").split(".")[0]
        raise CannotCompileError(f"{missing} is not installed") from error
    # Asked first, since translating takes many times as long as finding out.
    probe = library.parent / "probe.c"
    probe.write_text(PROBE)
    try:
        with captured_output() as output:
            compile_extensions([Extension("probe", ["build/probe.c"])], library.parent / "probe")
    except (Exception, SystemExit) as error:
        raise CannotCompileError(complaint(error, output)) from error
    sys.stdout.writelines(f"compiling {module}\n" for module in modules)
    extensions = [
        Extension(
            module.removesuffix(".py").replace("/", "."),
            [module],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=LINK_ARGS,
        )
        for module in modules
    ]
    try:
        with captured_output() as output:
            translated = cythonize(
                extensions,
                build_dir="build/cython",
                compiler_directives=DIRECTIVES,
                nthreads=min(len(modules), os.cpu_count() or 1),
                force=True,
                quiet=True,
            )
            compile_extensions(translated, library)
    except (Exception, SystemExit):
        sys.stderr.write("".join(output))
        raise


def compile_extensions(extensions: list[Any], library: Path) -> None:
    """Compile C extensions into `library`, several at a time."""
    from setuptools import Distribution

    command: Any = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib = str(library)
    command.build_temp = str(library.parent / f"temp.{PLATFORM}")
    # One by one where there is one: an error that crosses threads loses what it came from.
    command.parallel = min(len(extensions), os.cpu_count() or 1) if len(extensions) > 1 else None
    command.force = True
    command.ensure_finalized()
    command.run()


@contextlib.contextmanager
def captured_output() -> Iterator[list[str]]:
    """Give a list that holds, when it is over, the lines that this process and those that it
    started wrote meanwhile."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [(stream, os.dup(stream)) for stream in (1, 2)]
        try:
            for stream, _ in saved:
                os.dup2(output.fileno(), stream)
            yield lines
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, copy in saved:
                os.dup2(copy, stream)
                os.close(copy)
            output.seek(0)
            lines += output.read().decode(errors="replace").splitlines(keepends=True)


def complaint(error: BaseException, output: list[str]) -> str:
    """Why the compiler failed, in one line: what it says of it, or how it ended."""
    for line in output:
        if "error:" in line:
            return line.strip()
    reason: BaseException | None = error
    while reason is not None:
        if isinstance(reason, FileNotFoundError):
            return f"there is no C compiler ({reason.filename})"
        if isinstance(reason, subprocess.CalledProcessError):
            return f"{reason.cmd[0]} ends with exit status {reason.returncode}"
        reason = reason.__context__
    return str(error)


class CompileHook(BuildHookInterface[BuilderConfig]):
    """Adds the compiled modules to a wheel, or puts them in place for an editable installation.

    `HATCH_BUILD_NO_HOOKS=true` leaves it out, and with it everything compiled.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a build; `version` is "standard" or "editable"."""
        compilation = Compilation(Path(self.root), MODULES)
        try:
            if version == "editable":
                compilation.compile_in_place()
                return
            built = compilation.compile_apart()
        except (Exception, SystemExit) as error:  # an installation never fails for speed
            if version == "editable":
                compilation.remove()
            self.app.display_warning(warning(error))
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for module, path in zip(compilation.modules, built, strict=True):
            build_data["force_include"][str(path)] = compiled_name(module)


def warning(error: BaseException) -> str:
    """What to say where nothing is compiled."""
    return f"swasim is not compiled and will be many times slower: {error}"


def main(root: Path) -> int:
    """Compile in place; 1 where the modules are wrong, 0 where this machine cannot compile."""
    try:
        Compilation(root, MODULES).compile_in_place()
    except CannotCompileError as error:
        sys.stderr.write(f"warning: {warning(error)}\n")
        return 0
    except (Exception, SystemExit) as error:
        sys.stderr.write(f"error: cannot compile: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))

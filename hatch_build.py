"""Compiles the modules that a replay spends its time in, where there is a C compiler.

Each of them is a plain Python module with a `.pxd` of the same name that gives its types. Where
nothing can be compiled swasim runs them as they stand, with the same results, slower.

The build runs this for a wheel and for an editable installation; `python hatch_build.py` compiles
in place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = ("swasim/runs.py",)

DIRECTIVES = {
    "language_level": 3,
    # Annotations are for readers and type checkers; the types of C stand in the .pxd files.
    "annotation_typing": False,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}


def compile_in_place(root: Path) -> list[str]:
    """Compile `MODULES` next to their sources; paths of what came out, relative to `root`."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    extensions = [
        Extension(path.removesuffix(".py").replace("/", "."), [path], extra_compile_args=["-O3"])
        for path in MODULES
    ]
    compiled = cythonize(extensions, compiler_directives=DIRECTIVES, build_dir="build", quiet=True)
    command = Distribution({"ext_modules": compiled}).get_command_obj("build_ext")
    command.inplace = True
    command.ensure_finalized()
    command.run()
    return [str(Path(path).resolve().relative_to(root)) for path in command.get_outputs()]


class CompileHook(BuildHookInterface):
    """Adds the compiled modules to what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a build; `version` is "standard" or "editable"."""
        if self.target_name != "wheel":
            return
        try:
            outputs = compile_in_place(Path(self.root))
        except (Exception, SystemExit) as error:  # no compiler, no headers: any of a dozen kinds
            self.app.display_warning(f"nothing is compiled, swasim will be slower: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"] += [f"/{path}" for path in outputs]


if __name__ == "__main__":
    for made in compile_in_place(Path(__file__).resolve().parent):
        sys.stdout.write(f"{made}\n")

"""Stand-ins for modules that are missing, while somebody else's package is imported.

SGLang's allocators need a dozen lines of its utilities, and those modules import half of a serving
stack. `standing_in` lets the real, unmodified files load where that stack is not installed. The one
idea: a stand-in may be imported, subclassed and used as a decorator, and nothing else. Once the
loading is over it is sealed, and whoever calls it gets `AbsentError` instead of a made-up answer.

What must not be added here: anything that knows what the loaded package does.
"""

from __future__ import annotations

import ast
import importlib
import sys
from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from swasim.errors import UsageError


class AbsentError(UsageError):
    """The allocator used something that was left out when its package was loaded."""


@dataclass
class Absences:
    """What was left out of one loading.

    Attributes:
        package: the package that is being loaded.
        missing: third-party names that were not installed and were asked for, in order.
        left_out: the package's own modules that did not load, with the reason.
        values: constants that stay usable, by dotted name.
        sealed: loading is over; stand-ins refuse to be used.
    """

    package: str
    missing: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    sealed: bool = False

    def refuse(self, name: str) -> None:
        """Complain about the use of `name`, once loading is over.

        Raises:
            AbsentError: loading is over.
        """
        if self.sealed:
            root = name.partition(".")[0]
            cure = f"pip install {root}" if root != self.package else self._cure(name)
            raise AbsentError(
                f"{self.package} uses {name} in the allocator, and it is not there: {cure}"
            )

    def _cure(self, name: str) -> str:
        for module, reason in self.left_out.items():
            if name == module or name.startswith(module + "."):
                return f"{module} did not load ({reason})"
        return f"install {self.package} with its dependencies"


class _AbsentMeta(ABCMeta):
    """Type of every absent name: a class, so that it can be a base, an annotation, a decorator."""

    def __getattr__(cls, name: str) -> Any:
        absences: Absences | None = cls.__dict__.get("_absences")
        if absences is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        if f"{cls.__name__}.{name}" in absences.values:
            return absences.values[f"{cls.__name__}.{name}"]
        absences.refuse(f"{cls.__name__}.{name}")
        return absent(f"{cls.__name__}.{name}", absences)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        absences: Absences | None = cls.__dict__.get("_absences")
        if absences is None:
            return super().__call__(*args, **kwargs)
        absences.refuse(cls.__name__)
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return absent(cls.__name__, absences)

    def __getitem__(cls, key: Any) -> Any:
        cls._refuse()
        return cls

    def __setitem__(cls, key: Any, value: Any) -> None:
        cls._refuse()

    def __iter__(cls) -> Iterator[Any]:
        cls._refuse()
        return iter(())

    def __bool__(cls) -> bool:
        cls._refuse()
        return "_absences" not in cls.__dict__

    def _refuse(cls) -> None:
        absences: Absences | None = cls.__dict__.get("_absences")
        if absences is not None:
            absences.refuse(cls.__name__)


def absent(name: str, absences: Absences) -> Any:
    """A stand-in for the dotted `name`."""
    return _AbsentMeta(name, (), {"_absences": absences})


class AbsentModule(ModuleType):
    """A module whose every public attribute is a stand-in; submodules that exist stay real."""

    def __init__(self, name: str, absences: Absences) -> None:
        super().__init__(name)
        self.__dict__["_absences"] = absences

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "0"
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        absences: Absences = self.__dict__["_absences"]
        if not absences.sealed and PathFinder.find_spec(
            f"{self.__name__}.{name}", self.__dict__.get("__path__", ())
        ):
            return importlib.import_module(f"{self.__name__}.{name}")
        value = absent(f"{self.__name__}.{name}", absences)
        setattr(self, name, value)
        return value


class _AbsentLoader(Loader):
    def __init__(self, absences: Absences) -> None:
        self._absences = absences

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name, self._absences)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


class _TolerantLoader(Loader):
    """Runs the real loader; a module that does not load becomes a stand-in, and is noted."""

    def __init__(self, real: Loader, absences: Absences) -> None:
        self._real = real
        self._absences = absences

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._real.exec_module(module)
        except Exception as error:
            self._absences.left_out[module.__name__] = f"{type(error).__name__}: {error}"
            stand_in = AbsentModule(module.__name__, self._absences)
            for name in ("__spec__", "__path__", "__package__", "__loader__", "__file__"):
                if hasattr(module, name):
                    setattr(stand_in, name, getattr(module, name))
            sys.modules[module.__name__] = stand_in


class _OwnFinder(MetaPathFinder):
    """Decides for the package's own modules which are real. Comes before all that find files.

    Modules under `real` load as they are, and those named in `needed` must load. Of everything
    else only the place in the tree is kept, so that its submodules are found.
    """

    def __init__(self, absences: Absences, real: Sequence[str], needed: Sequence[str]) -> None:
        self._absences = absences
        self._real = tuple(real)
        self._needed = frozenset(needed)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self._absences.package:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None or fullname in self._needed:
            return spec
        if any(fullname == name or fullname.startswith(name + ".") for name in self._real):
            spec.loader = _TolerantLoader(spec.loader, self._absences)
            return spec
        bare = ModuleSpec(
            fullname, _AbsentLoader(self._absences), origin=spec.origin, is_package=True
        )
        bare.submodule_search_locations = list(spec.submodule_search_locations or ())
        return bare


class _MissingFinder(MetaPathFinder):
    """Answers for third-party names that nobody else found. Comes last on the path.

    Only imports written in the package itself are answered, so that torch and other installed
    libraries still see the truth about what is missing; and of those only the ones that the
    package cannot do without (not `try: import x / except ImportError`).
    """

    def __init__(self, absences: Absences) -> None:
        self._absences = absences
        self._loader = _AbsentLoader(absences)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        missing = self._absences.missing
        if root == self._absences.package or root.startswith("_"):
            return None
        if root not in missing:
            if rest or not self._asked_by_package():
                return None
            missing.append(root)
        return ModuleSpec(fullname, self._loader, is_package=True)

    def _asked_by_package(self) -> bool:
        frame = sys._getframe(2)
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if name == "importlib.util":
                return False
            if not name.startswith("importlib"):
                own = name.partition(".")[0] == self._absences.package
                return own and not _optional(frame.f_code.co_filename, frame.f_lineno)
            if frame.f_back is None:
                break
            frame = frame.f_back
        return False


def _optional(filename: str, line: int) -> bool:
    """Whether `line` of a source file stands in a `try` that survives an ImportError."""
    return any(start <= line <= end for start, end in _guarded_lines(filename))


@cache
def _guarded_lines(filename: str) -> tuple[tuple[int, int], ...]:
    try:
        tree = ast.parse(Path(filename).read_bytes())
    except (OSError, SyntaxError):
        return ()
    return tuple(
        (node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any(_catches(handler) for handler in node.handlers)
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    names = {
        node.id
        for node in ast.walk(handler.type or ast.Name("Exception"))
        if isinstance(node, ast.Name)
    }
    return not names.isdisjoint(
        {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    )


@contextmanager
def standing_in(
    package: str, real: Sequence[str], needed: Sequence[str], values: Mapping[str, Any]
) -> Iterator[Absences]:
    """Let `package` be imported although what it wants is missing.

    Args:
        package: top-level name.
        real: dotted prefixes of its modules that are executed; one that fails to load becomes a
            stand-in. Everything else of the package is a stand-in from the start.
        needed: modules that must load; their exceptions leave the `import`.
        values: constants of missing libraries, by dotted name, that may be read afterwards.

    State: `sys.meta_path` while inside. Afterwards the stand-ins of third-party names are gone
    from `sys.modules` and everything left out is sealed.
    """
    absences = Absences(package, values=values)
    first, last = _OwnFinder(absences, real, needed), _MissingFinder(absences)
    # Behind whoever stands in front to watch an import, before everything that finds files.
    builtin = sys.meta_path.index(BuiltinImporter) if BuiltinImporter in sys.meta_path else 0
    sys.meta_path.insert(builtin, first)
    sys.meta_path.append(last)
    try:
        yield absences
    finally:
        sys.meta_path.remove(first)
        sys.meta_path.remove(last)
        absences.sealed = True
        for name, module in list(sys.modules.items()):
            if isinstance(module, AbsentModule) and name.partition(".")[0] != package:
                del sys.modules[name]

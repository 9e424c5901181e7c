"""Do something to a class when the module that defines it is imported, by whomever."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Classes = Mapping[str, Sequence[str]]


def when_imported(classes: Classes, action: Callable[[type], None]) -> None:
    """Call `action` on each class as soon as it exists.

    Args:
        classes: module name to the names of classes defined there; absent ones are ignored.
        action: called once per class; must not raise.

    State: `sys.meta_path`; modules that are loaded already are served at once.
    """
    for name in classes:
        module = sys.modules.get(name)
        if module is not None:
            _serve(module, classes[name], action)
    sys.meta_path.insert(0, _Watcher(classes, action))


def _serve(module: ModuleType, names: Sequence[str], action: Callable[[type], None]) -> None:
    for name in names:
        cls = vars(module).get(name)
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            action(cls)


class _Watcher(MetaPathFinder):
    def __init__(self, classes: Classes, action: Callable[[type], None]) -> None:
        self._classes = classes
        self._action = action
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._classes or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._classes[fullname], self._action)
        return spec


class _Loader(Loader):
    """The real loader, and the action behind it."""

    def __init__(self, real: Loader, names: Sequence[str], action: Callable[[type], None]) -> None:
        self._real = real
        self._names = names
        self._action = action

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the real loader."""
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the real loader; then the classes are there."""
        self._real.exec_module(module)
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        _serve(module, self._names, self._action)

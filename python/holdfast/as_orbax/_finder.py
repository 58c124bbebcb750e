"""Module finders for the import system."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from holdfast.as_orbax._names import (
    FOLDERS,
    ORBAX,
    REFUSED,
    WHY_REFUSED,
    our_names,
)

_Path = Sequence[str] | None


class Finder(MetaPathFinder):
    """Finds holdfast's modules under their Orbax names."""

    def find_spec(
        self,
        fullname: str,
        path: _Path,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Returns the spec of a module; None if the name is not Orbax's.

        Raises:
            ModuleNotFoundError: holdfast has no such module. (For None, the
                next finder would load a holdfast file a second time.)
        """
        if fullname != ORBAX and not fullname.startswith(f"{ORBAX}."):
            return None
        for name in our_names(fullname):
            if _exists(name):
                return ModuleSpec(fullname, _AliasLoader(name))
        if fullname.removeprefix(f"{ORBAX}.") in REFUSED:
            return ModuleSpec(fullname, _RefusedLoader())
        if fullname in FOLDERS:
            return ModuleSpec(fullname, _FolderLoader(), is_package=True)
        raise ModuleNotFoundError(
            f"holdfast, which takes the place of Orbax in this program, has no"
            f" module {fullname!r}. doc/clients.md lists the names that it"
            " has; the program runs with Orbax when it is started without"
            " holdfast.as_orbax",
            name=fullname,
        )


class NamespaceFinder(MetaPathFinder):
    """Finds an empty package `orbax` if no part of Orbax is installed."""

    def find_spec(
        self,
        fullname: str,
        path: _Path,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Returns the package's spec. Called after all other finders."""
        if fullname != ORBAX.partition(".")[0]:
            return None
        return ModuleSpec(fullname, None, is_package=True)


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is not a package
        return False


class _AliasLoader(Loader):
    """Loads a holdfast module, which keeps its own name and spec."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        # The import system has set the spec of the alias.
        module.__spec__ = self._spec
        if module is sys.modules.get(ORBAX):
            _add_folders(module)


def _add_folders(root: types.ModuleType) -> None:
    """Sets the packages that are attributes of Orbax once it is imported."""
    for folder in FOLDERS:
        name = folder.removeprefix(f"{ORBAX}.")
        if "." not in name:
            setattr(root, name, importlib.import_module(folder))


class _RefusedLoader(Loader):
    """Loads a module whose classes and functions raise when called."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Returns None for an ordinary module."""

    def exec_module(self, module: types.ModuleType) -> None:
        from holdfast.orbax._compat.refusal import refused

        full = module.__name__
        for name in REFUSED[full.removeprefix(f"{ORBAX}.")].split():
            setattr(module, name, refused(full, name, WHY_REFUSED))


class _FolderLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Folder(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing, because there is no code to run."""


class _Folder(types.ModuleType):
    """A package of Orbax that contains only modules."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(str(error), name=name) from error

"""Adds the site's pages that are not in doc/ but are made from the sources.

mkdocs.yml names this file as a hook of mkdocs. It adds a page for each public
header (header_pages.py), pages for the Python modules, which mkdocstrings fills
from their docstrings, and a page for each file outside doc/ that a page links
to. On the site, such a link leads to the added page.
"""

from __future__ import annotations

import ast
import pathlib
import posixpath
import re
import sys
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import header_pages  # noqa: E402

HEADERS = "include/holdfast/"
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)((?:#[^)]*)?\))")
# Modules in the order of the guide, each with the names on its page. An empty
# list means the names of the module's __all__, functions first.
MODULES: dict[str, list[str]] = {
    "holdfast": [],
    "holdfast.orbax": [
        "StandardCheckpointer", "PyTreeCheckpointer", "Checkpointer",
        "AsyncCheckpointer", "CheckpointManager", "CheckpointManagerOptions",
        "StandardCheckpointHandler", "PyTreeCheckpointHandler",
        "ArrayCheckpointHandler", "JsonCheckpointHandler",
        "CompositeCheckpointHandler", "SaveArgs", "RestoreArgs",
        "ArrayRestoreArgs", "AsyncOptions", "Transform", "RestoreTransform",
        "apply_transformations", "merge_trees",
    ],
    "holdfast.megatron": [],
    "holdfast.torch": [],
    "holdfast.remote": [],
    "holdfast.errors": [],
}
LANGUAGES = {".py": "python", ".c": "c", ".cc": "cpp", ".h": "cpp",
             ".json": "json"}


def public_names(module: str) -> list[str]:
    """Returns the module's __all__ without submodules, functions first."""
    inside = ROOT.joinpath("python", *module.split("."))
    path = (inside / "__init__.py" if inside.is_dir()
            else inside.with_suffix(".py"))
    for statement in ast.parse(path.read_text()).body:
        if (isinstance(statement, ast.Assign)
                and ast.unparse(statement.targets[0]) == "__all__"):
            names = [name for name in ast.literal_eval(statement.value)
                     if not name.startswith("__")
                     and not (inside / f"{name}.py").exists()]
            return sorted(names, key=lambda name: (name[0].isupper(), name))
    raise SystemExit(f"{path} has no __all__")


def module_page(module: str, names: list[str]) -> str:
    """Returns the module's docstring, then one directive for each name."""
    parts = [f"# {module}",
             f"::: {module}\n    options:\n      show_root_heading: false\n"
             "      members: false"]
    parts += [f"::: {module}.{name}" for name in names or public_names(module)]
    return "\n\n".join(parts) + "\n"


def module_index() -> str:
    rows = "\n".join(f"- [{module}]({module}.md)" for module in MODULES)
    return ("# Python modules\n\nThe reference of each public module, from its "
            "docstrings. [The guide](../../python.md) says how they are used. "
            "`holdfast.orbax` has every public name of Orbax 0.12.8; its page "
            "has the main ones, and [support](../../support.md) has the list.\n\n"
            f"{rows}\n")


def source_page(path: pathlib.Path) -> str:
    """Returns the page that shows a file of the repository."""
    if path.suffix == ".md":
        # Remove the file's links, which lead to files without a page.
        return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1",
                      path.read_text())
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        parts = [f"# {name}/"]
        for each in sorted(path.glob("*.*")):
            parts.append(f"## {each.name}\n\n{fenced(each)}")
        return "\n\n".join(parts) + "\n"
    return f"# {name}\n\n{fenced(path)}\n"


def fenced(path: pathlib.Path) -> str:
    language = LANGUAGES.get(path.suffix, "text")
    return f"````{language}\n{path.read_text()}````"


def page_of_source(name: str) -> str:
    """Returns the page of the site for the repository's file `name`."""
    if name.startswith(HEADERS) and name.endswith(".h"):
        return "reference/cpp/" + header_pages.page_path(
            name.removeprefix(HEADERS))
    if name == "include/holdfast":
        return "reference/cpp/index.md"
    return f"files/{name.removesuffix('.md')}.md"


def source_of(uri: str, link: str) -> str | None:
    """Returns the repository's file outside doc/ that a link leads to."""
    target = posixpath.normpath(posixpath.join("doc", posixpath.dirname(uri),
                                               link))
    outside = not target.startswith("doc/") and (ROOT / target).exists()
    return target if outside else None


def linked_sources(files: Files) -> set[str]:
    found = set()
    for file in files.documentation_pages():
        if file.abs_src_path is None:
            continue
        text = pathlib.Path(file.abs_src_path).read_text()
        for link in LINK.finditer(text):
            if (source := source_of(file.src_uri, link[2])) is not None:
                found.add(source)
    return found


def on_files(files: Files, config: Any) -> Files:
    made = {f"reference/cpp/{path}": text
            for path, text in header_pages.pages().items()}
    made["reference/python/index.md"] = module_index()
    for module, names in MODULES.items():
        made[f"reference/python/{module}.md"] = module_page(module, names)
    for source in sorted(linked_sources(files)):
        made.setdefault(page_of_source(source), source_page(ROOT / source)
                        if not source.startswith("include/") else "")
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    if uri.startswith(("reference/", "files/")):
        return markdown
    here = posixpath.dirname(uri) or "."

    def on_site(link: re.Match[str]) -> str:
        source = source_of(uri, link[2])
        if source is None:
            return link[0]
        return (link[1] + posixpath.relpath(page_of_source(source), here)
                + link[3])

    return LINK.sub(on_site, markdown)

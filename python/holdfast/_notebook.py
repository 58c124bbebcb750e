"""Tables of leaves as HTML, for notebooks: folded by module, searchable.

A page consists of nested `<details>`, which fold without a script, so untrusted
notebooks and renderers that remove scripts also show the full page. If scripts
may run, a script adds a search box. The page loads nothing from elsewhere.
"""

from __future__ import annotations

import dataclasses
import html
import uuid
from collections.abc import Iterable, Sequence

from holdfast import _stats

__all__ = ["Row", "page"]

# With at most this many leaves, all modules are initially unfolded.
_UNFOLDED_MAX = 40

_STYLE = """
.holdfast-view{font-size:13px;line-height:1.5;text-align:left}
.holdfast-view details{margin-left:1.2em}
.holdfast-view summary{cursor:pointer}
.holdfast-view summary span,.holdfast-view p span{opacity:.65}
.holdfast-view .bad{color:#c62828}
.holdfast-view table{margin:0 0 .3em 1.2em;border-collapse:collapse}
.holdfast-view td,.holdfast-view th{text-align:left;padding:1px 10px 1px 0}
.holdfast-view td{white-space:pre-wrap;vertical-align:top}
.holdfast-view [hidden]{display:none!important}
"""

# A row matches if its full name or one of its cells contains the text. Clearing
# the search restores which modules were folded.
_SCRIPT = """
(() => {
  const view = document.getElementById("@ID@");
  if (!view || view.dataset.ready) return;
  view.dataset.ready = "yes";
  const pathOf = (row) => {
    const module = row.closest("details");
    const path = module ? module.querySelector("summary>code").textContent : "";
    return (path ? path + "." : "") + row.textContent;
  };
  const rows = [...view.querySelectorAll("tbody>tr")].map(
    (row) => ({row, text: pathOf(row).toLowerCase()}));
  const modules = [...view.querySelectorAll("details")];
  const bar = document.createElement("p");
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "search";
  search.setAttribute("aria-label", "search the leaves");
  const found = document.createElement("span");
  const button = (text, open) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", () => modules.forEach(
      (module) => { module.open = open; }));
    return made;
  };
  bar.append(search, " ", button("unfold all", true), " ",
             button("fold all", false), " ", found);
  view.querySelector("p").after(bar);
  let folds = null;
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    if (folds === null) folds = modules.map((module) => module.open);
    let count = 0;
    for (const {row, text} of rows) {
      row.hidden = !text.includes(wanted);
      count += !row.hidden;
    }
    modules.forEach((module, i) => {
      const has = !wanted || module.querySelector("tbody>tr:not([hidden])");
      module.hidden = !has;
      module.open = wanted ? Boolean(has) : folds[i];
    });
    view.querySelectorAll("table").forEach((table) => {
      table.hidden = !table.querySelector("tbody>tr:not([hidden])");
    });
    found.textContent = wanted ? count + " of " + rows.length : "";
    if (!wanted) folds = null;
  });
  for (const event of ["keydown", "keypress", "keyup"]) {
    bar.addEventListener(event, (key) => key.stopPropagation());
  }
})();
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """One leaf of a page.

    Attributes:
      keys: the keys that lead to the leaf; the last key is the leaf's name in
        its module.
      cells: one string for each column after the name.
      parameter_count: number of elements of an array.
      bytes: size of its elements; leaves and modules are sorted by this size.
      problem_count: number of problems or differences; leaves that have any
        come first.
    """

    keys: tuple[str, ...]
    cells: tuple[str, ...]
    parameter_count: int = 0
    bytes: int = 0
    problem_count: int = 0


@dataclasses.dataclass(frozen=True)
class _Module:
    """Rows below one path, and their sums."""

    keys: tuple[str, ...]
    rows: list[Row]

    @property
    def order(self) -> tuple[int, int]:
        return (
            -sum(row.problem_count > 0 for row in self.rows),
            -sum(row.bytes for row in self.rows),
        )


def page(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    notes: Sequence[str] = (),
    nouns: tuple[str, str] = ("leaf", "leaves"),
    problem: str = "",
) -> str:
    """Returns a page of all rows, folded by module and sorted by size, largest
    first.

    Args:
      title: the first line.
      columns: the headings above the rows' `cells`.
      rows: the rows, in any order; each is shown.
      notes: lines below the title.
      nouns: the noun for one row, and for several.
      problem: what `problem_count` counts, such as "different"; "" hides it.
    """
    view = f"holdfast-{uuid.uuid4().hex}"
    whole = _Module((), list(rows))
    is_unfolded = len(whole.rows) <= _UNFOLDED_MAX
    maker = _Maker(columns, nouns, problem, is_unfolded)
    lines = [
        f"<b>{html.escape(title)}</b>",
        f"<span>{maker.sums(whole.rows)}</span>",
        *map(html.escape, notes),
    ]
    return (
        f'<div class="holdfast-view" id="{view}"><style>{_STYLE}</style>'
        f"<p>{'<br>'.join(lines)}</p>{maker.inside(whole)}"
        f"<script>{_SCRIPT.replace('@ID@', view)}</script></div>"
    )


class _Maker:
    def __init__(
        self,
        columns: Sequence[str],
        nouns: tuple[str, str],
        problem: str,
        is_unfolded: bool,
    ) -> None:
        head = "".join(f"<th>{html.escape(name)}" for name in columns)
        self._head = f"<table><thead><tr><th>name{head}</thead><tbody>"
        self._nouns = nouns
        self._problem = problem
        self._open = " open" if is_unfolded else ""

    def sums(self, rows: Sequence[Row]) -> str:
        """Returns text like "3 leaves, 1.2M parameters, 4.6 MiB"."""
        parameters = sum(row.parameter_count for row in rows)
        size = sum(row.bytes for row in rows)
        bad = sum(row.problem_count for row in rows)
        parts = [f"{len(rows)} {self._nouns[len(rows) != 1]}"]
        if parameters:
            noun = "parameter" if parameters == 1 else "parameters"
            parts.append(f"{_stats.human_count(parameters)} {noun}")
        if size:
            parts.append(_stats.human_bytes(size))
        if bad and self._problem:
            parts.append(f'<b class="bad">{bad} {self._problem}</b>')
        return ", ".join(parts)

    def inside(self, module: _Module) -> str:
        """Returns the contents of a module: first modules, then leaves."""
        modules, leaves = _split(module)
        parts = [self._folded(below) for below in modules]
        if leaves:
            depth = len(module.keys)
            parts.append(self._head)
            parts += [self._line(row, depth) for row in leaves]
            parts.append("</table>")
        return "".join(parts)

    def _folded(self, module: _Module) -> str:
        path = html.escape(".".join(module.keys))
        return (
            f"<details{self._open}><summary><code>{path}</code>"
            f" <span>{self.sums(module.rows)}</span></summary>"
            f"{self.inside(module)}</details>"
        )

    def _line(self, row: Row, depth: int) -> str:
        # A large page is a third smaller without HTML's optional end tags.
        name = html.escape(".".join(row.keys[depth:]) or "(root)")
        bad = ' class="bad"' if row.problem_count else ""
        cells = "".join(f"<td>{html.escape(cell)}" for cell in row.cells)
        return f"<tr{bad}><td>{name}{cells}"


def _split(module: _Module) -> tuple[list[_Module], list[Row]]:
    """Returns the modules that have several leaves, and all other leaves.

    A module that holds all leaves of its parent takes the parent's place.
    """
    depth = len(module.keys)
    below: dict[str, list[Row]] = {}
    leaves = []
    for row in module.rows:
        if len(row.keys) > depth + 1:
            below.setdefault(row.keys[depth], []).append(row)
        else:
            leaves.append(row)
    modules = []
    for key, rows in below.items():
        if len(rows) == 1:
            leaves += rows
        else:
            modules.append(_descend(_Module((*module.keys, key), rows)))
    leaves.sort(key=lambda row: (row.problem_count == 0, -row.bytes))
    modules.sort(key=lambda module: module.order)
    return modules, leaves


def _descend(module: _Module) -> _Module:
    keys = module.keys
    while True:
        depth = len(keys)
        first = module.rows[0].keys
        # The chain of modules ends at a direct leaf or at a fork.
        if any(
            len(row.keys) <= depth + 1 or row.keys[depth] != first[depth]
            for row in module.rows
        ):
            return _Module(keys, module.rows)
        keys = first[: depth + 1]

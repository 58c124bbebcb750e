"""Reads the English text in sources: errors, help, comments, docstrings.

`cpp_prose` and `python_prose` yield (kind, line number, text). Kinds: "error"
(string literals in error messages, and all literals of the command), "comment"
and "docstring". The lines of one comment, and adjacent literals, form one text;
a comment keeps its line breaks.
"""

import ast
import io
import re
import tokenize

CPP_TOKENS = re.compile(
    r'R"(?P<delimiter>\w*)\(.*?\)(?P=delimiter)"|//[^\n]*|/\*.*?\*/'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
# A call that makes an error from a message.
CPP_ERROR_CALL = re.compile(
    r"\b(?:\w*Error|[Rr]efuse|Bad\w*|Throw\w*|Fail\w*|Contradiction|\w*Status)"
    r"\(")
# A source without any of these words has no problem, and is not tokenized.
SUSPECT = re.compile(r"\b(?:no|none|Of|Who|Whom|Whoever|What|As|alone|there)\b")


def prose(name, text):
    """Reads a C++ or Python file; `name` is its path from the root."""
    if name.endswith(".py"):
        return python_prose(text)
    return cpp_prose(text, name.startswith("cli/"))


def cpp_prose(text, is_command):
    """Reads one C++ file. If `is_command`, every literal counts as help or
    error."""
    parts = []  # of the current text: (kind, line number, text)
    last_column = 0  # of its last comment
    last_end = 0
    statement = ""  # the code of this statement, without its literals
    line_number = 1
    for match in CPP_TOKENS.finditer(text):
        between = text[last_end:match.start()]
        line_number += between.count("\n")
        head, _, tail = between.rpartition(";")
        statement = tail if head or ";" in between else statement + between
        statement = re.split(r"[{}]\s*\n", statement)[-1]
        kind, content = read_cpp_token(match.group(0), statement, is_command)
        column = match.start() - text.rfind("\n", 0, match.start())
        goes_on = (parts and parts[-1][0] == kind and not between.strip() and
                   between.count("\n") <= 1 and
                   (kind == "error" or column == last_column))
        last_column = column
        if parts and not goes_on:
            yield joined(parts)
            parts = []
        if kind:
            parts.append((kind, line_number, content))
        line_number += match.group(0).count("\n")
        last_end = match.end()
    if parts:
        yield joined(parts)


def read_cpp_token(token, statement, is_command):
    """Returns (kind, content); kind is None for a token that is not read."""
    if token.startswith("//"):
        return "comment", token[2:].strip()
    if token.startswith('"') and (is_command or
                                  CPP_ERROR_CALL.search(statement)):
        return "error", token[1:-1]
    return None, ""


def joined(parts):
    kind, line_number, _ = parts[0]
    separator = "\n" if kind == "comment" else ""
    return kind, line_number, separator.join(part for _, _, part in parts)


def python_prose(text):
    """Reads one Python file. Raises SyntaxError if this Python cannot parse
    it."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef,
                             ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                yield "docstring", node.body[0].lineno, docstring
        elif isinstance(node, ast.Raise) and node.exc is not None:
            for number, literal in literals(node.exc):
                yield "error", number, literal
    yield from python_comments(text)


def literals(node):
    """Yields (line number, text) for the strings in an expression. An inserted
    value counts as one word."""
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(
            part.value if isinstance(part, ast.Constant) else "x"
            for part in node.values)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from literals(child)


def python_comments(text):
    if not re.search(r"#[^\n]*" + SUSPECT.pattern, text):
        return
    lines = []  # of the current comment
    first = column = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        number = token.start[0]
        if lines and (number != first + len(lines) or
                      token.start[1] != column):
            yield "comment", first, "\n".join(lines)
            lines = []
        if not lines:
            first, column = token.start
        lines.append(token.string.lstrip("#").strip())
    if lines:
        yield "comment", first, "\n".join(lines)

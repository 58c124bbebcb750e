"""The checks of name_table.py, which look up one published name in the C++
headers and in the Python package.

A check returns a Finding, which says where the name is and what is missing.
"""

import ast
import dataclasses
import importlib
import inspect
import re

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass
class Finding:
    """Where a name was found, and descriptions of its missing parts."""
    place: str
    missing: list

    @property
    def ok(self):
        return not self.missing


def camel_case(name):
    """Turns build_kvstore_tspec into BuildKvstoreTspec."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def constant_case(name):
    """Turns FILE_DRIVER into kFileDriver."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def parameters(entry):
    """Returns the parameters of a function or class whose names are checked."""
    return [p for p in entry.get("parameters", ())
            if p["kind"] != "variadic"]


# ------------------------------------------------------------------- C++
class Headers:
    """The public headers, without comments."""

    def __init__(self, texts, spellings):
        """texts: header name -> source. spellings: key -> {"cpp", "why"}."""
        self.texts = {name: COMMENTS.sub(" ", text)
                      for name, text in texts.items()}
        self.words = {name: set(IDENTIFIER.findall(text))
                      for name, text in self.texts.items()}
        self.spellings = spellings
        self.used = set()  # keys of `spellings` that a check looked up

    def spelling(self, key):
        """Returns a name's special spelling, or {} if it has the usual
        spelling."""
        if key in self.spellings:
            self.used.add(key)
        return self.spellings.get(key, {})

    def having(self, pattern):
        """Returns the names of the headers that match the pattern."""
        return [name for name, text in self.texts.items()
                if re.search(pattern, text)]


def check_cpp(headers, module, entry):
    """Looks up a name, its parameters and its members in the headers."""
    key = f"{module}.{entry['name']}"
    own = headers.spelling(key)
    if "cpp" in own and own["cpp"] is None:
        return Finding(f"none: {own['why']}", [])
    name = own.get("cpp") or usual_name(entry)
    places = headers.having(declaration(name, kind_of(entry)))
    if not places:
        return Finding("", [name])
    words = set().union(*(headers.words[place] for place in places))
    missing = missing_words(headers, key, entry, words)
    if entry["kind"] == "constant" and not own:
        missing += wrong_value(headers, places, name, entry["value"])
    for member in entry.get("members", ()):
        missing += missing_member(headers, key, member, words)
    return Finding(f"{name} in {', '.join(places)}", missing)


def usual_name(entry):
    """Returns how a name is spelled in C++ unless it has a special spelling."""
    cases = {"function": camel_case, "constant": constant_case}
    return cases.get(kind_of(entry), str)(entry["name"])


def kind_of(entry):
    """Returns the kind of a name. Guesses the kind of an alias from its
    case."""
    if entry["kind"] != "alias":
        return entry["kind"]
    if entry["name"].isupper():
        return "constant"
    return "class" if entry["name"][0].isupper() else "function"


def declaration(name, kind):
    """Returns a pattern that matches the declaration of a name."""
    word = rf"\b{re.escape(name)}\b"
    return {"function": word + r"\s*\(",
            "class": rf"\b(?:class|struct|using)\s+{word}(?!\s*;)",
            "constant": word + r"\s*[={\[(]"}[kind]


def missing_words(headers, key, entry, words):
    missing = []
    for parameter in parameters(entry):
        own = headers.spelling(f"{key}({parameter['name']})")
        if "cpp" in own and own["cpp"] is None:
            continue
        word = own.get("cpp") or parameter["name"]
        if word not in words:
            missing.append(f"{entry['name']}({parameter['name']})")
    return missing


def missing_member(headers, key, member, words):
    member_key = f"{key}.{member['name']}"
    own = headers.spelling(member_key)
    if "cpp" in own and own["cpp"] is None:
        return []
    names = [own["cpp"]] if own else [camel_case(member["name"]),
                                      member["name"]]
    if not any(name in words for name in names):
        return ["." + member["name"]]
    return missing_words(headers, member_key, member, words)


def wrong_value(headers, places, name, value):
    """Checks the value of a constant if it is a literal. Returns [] if it is
    right."""
    python = ast.literal_eval(value)
    literal = {True: "true", False: "false"}.get(
        python, f'"{python}"' if isinstance(python, str) else str(python))
    pattern = rf"\b{name}\b[^;=({{]*[={{]\s*([^;}}]+?)\s*[;}}]"
    for place in places:
        match = re.search(pattern, headers.texts[place])
        while match and re.fullmatch(r"k\w+", match.group(1)):
            other = pattern.replace(name, match.group(1))
            match = re.search(other, headers.texts[place])
        if match and match.group(1) == literal:
            return []
    return [f"{name} = {literal}"]


# ---------------------------------------------------------------- Python
def check_python(module, entry):
    """Looks up a name, its parameters, defaults and members in a module."""
    try:
        value = getattr(importlib.import_module(module), entry["name"])
    except (ModuleNotFoundError, AttributeError):
        return Finding("", [entry["name"]])
    missing = []
    if entry["kind"] == "constant":
        wanted = ast.literal_eval(entry["value"])
        if value != wanted:
            missing.append(f"{entry['name']} = {wanted!r} (is {value!r})")
    if entry.get("parameters"):
        missing += wrong_parameters(module, value, entry)
    for member in entry.get("members", ()):
        method = inspect.getattr_static(value, member["name"], None)
        if method is None:
            missing.append("." + member["name"])
        elif member["kind"] == "method":
            bound = getattr(value, member["name"])
            missing += wrong_parameters(module, bound, member)
    return Finding("yes", missing)


def wrong_parameters(module, function, entry):
    """Returns the parameters that a signature lacks or gives another
    default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return [f"{entry['name']}(...)"]
    wrong = []
    for parameter in parameters(entry):
        name = parameter["name"]
        ours = signature.parameters.get(name)
        if ours is None or ours.kind is ours.POSITIONAL_ONLY:
            wrong.append(f"{entry['name']}({name})")
            continue
        # A parameter that Orbax requires may have a default here.
        wanted = parameter.get("default")
        if wanted is None:
            continue
        if ours.default is ours.empty:
            wrong.append(f"{entry['name']}({name}={wanted}), required here")
            continue
        default = made_default(function, ours)
        if not same_default(module, wanted, default):
            wrong.append(f"{entry['name']}({name}={wanted}),"
                         f" here {default!r}")
    return wrong


def made_default(function, parameter):
    """Returns a parameter's default, which a dataclass field's factory may
    make."""
    fields = getattr(function, "__dataclass_fields__", {})
    field = fields.get(parameter.name)
    if field is None or field.default_factory is dataclasses.MISSING:
        return parameter.default
    return field.default_factory()


def same_default(module, wanted, default):
    """Returns true if a default is the value of the expression `wanted`.

    None is accepted for an Orbax object (`Options()`), which is then made when
    the function is called.
    """
    try:
        return type(default) is type(ast.literal_eval(wanted)) and (
            default == ast.literal_eval(wanted))
    except ValueError:
        pass
    if default is None:
        return True
    owner, _, name = wanted.removesuffix("()").rpartition(".")
    if wanted.endswith("()"):
        return type(default).__name__ == name
    try:
        named = getattr(importlib.import_module(owner or module), name)
    except (ImportError, AttributeError):
        return getattr(default, "__name__", None) == name
    return default is named

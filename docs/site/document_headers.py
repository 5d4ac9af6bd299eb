#!/usr/bin/env python3
"""document_headers.py FOLDER: copies cubist's headers, with comments for Doxygen where a reader of the header needs none.

1. The comment that opens a header (what it is, shapes, steps, words, source) documents the file, and the class, concept or
   alias of the header's name if that has no comment.
2. A comment stands for all overloads up to the next empty line.
3. A `//` comment at the end of a declaration's line documents it.
4. Names of docs/conventions.md and names.md have the meaning that these pages give them; data members only those listed as such.
5. A class of namespace detail from which a public class derives is public itself, so that pages of networks and optimizers list what they inherit.

The format of the code is used: a declaration begins at the indentation of its scope, and braces have lines of their own."""
import pathlib
import re
import sys

SITE = pathlib.Path(__file__).parent
NAMES = (SITE / "names.md").read_text()


def meanings(text):
    return {name: meaning for names, meaning in re.findall(r"^\| (`.+`) \| (.*) \|$", text, re.M)
            for name in re.findall(r"`([^`]+)`", names)}


DATA = meanings(NAMES[NAMES.index("## Data members"):])
CONVENTIONS = meanings(NAMES) | meanings((SITE.parent / "conventions.md").read_text())
CLASS = re.compile(r"^(?:typedef )?(namespace|class|struct|enum class|enum|union)\b(?: \[\[.*?\]\])?(?: alignas\(\w+\))? ?([\w:]*)")


def without_template(text):
    """The declaration without template<...> and requires-clauses in front."""
    text = " ".join(text.split())
    while text.startswith("template"):
        depth, i = 0, text.find("<")
        while i < len(text):
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(text[i], 0)
            i += 1
            if depth == 0:
                break
        text = text[i:].lstrip()
    return re.sub(r"^(inline |constexpr |static |friend |explicit |\[\[\w+\]\] |CUBIST_HOST_DEVICE )+", "", text)


def name_of(text):
    """The name that a declaration declares; copy constructor, move, default, ~, deleted for such members of a class X, conversion for `operator T`."""
    text = without_template(text)
    special = re.search(r"(?:^|[ &*])(~?[A-Z]\w*)\((const \1(?:<[\w, ]+>)?& ?\w*|\1(?:<[\w, ]+>)?&& ?\w*|)\)", text)
    if special and text.startswith(special.group(1)):
        if text.startswith("~"):
            return "~"
        if "= delete" in text:
            return "deleted"
        return "copy constructor" if "const" in special.group(2) else "move" if "&&" in special.group(2) else "default"
    if "operator=" in text and "= delete" in text:
        return "deleted"
    operator = re.search(r"\boperator ?(\(\)|\[\]|[^\w\s(]+|[\w:]+)", text)
    if operator:
        return "conversion" if re.match(r"\w", operator.group(1)) else "operator" + operator.group(1)
    variable = re.match(r"bool (\w+)<", text)
    if variable:
        return variable.group(1)
    alias = re.match(r"using (\w+) =", text) or re.match(r"concept (\w+)", text) or CLASS.match(text)
    if alias:
        return alias.group(alias.lastindex)
    name = re.search(r"(\w+)\(", text)
    while not name and re.search(r"<[^<>]*>", text):
        text = re.sub(r"<[^<>]*>", "", text)  # the commas between arguments of a variable's type
    name = name or re.search(r"(\w+)(?: = .*|\{.*|\[.*|,|;)", text)
    return name.group(1) if name else ""


def escape(text, special):
    """Text in which Doxygen sees `code`, and nothing in the characters of `special`."""
    parts = re.split(r"`([^`]+)`", text)
    quoted = [re.sub(f"([{special}])", r"\\\1", part) for part in parts]
    quoted[1::2] = ["<code>" + re.sub(r"([\\@#<>%&~])", r"\\\1", part) + "</code>" for part in parts[1::2]]
    return "".join(quoted).replace("…", "&hellip;").replace(" ::", " \\::")


def as_markdown(block):
    """A `//` block as Markdown: what is indented is shown as it stands."""
    out, code = [], False
    for line in block:
        text = line[2:][1:] if line.startswith("// ") else line[2:]
        listed = re.match(r" {1,3}(\d\.|\*) ", text)
        is_code = text.startswith("  ") and not listed and (code or not out or not re.match(r" *(\d\.|\*) |  +\S", out[-1]))
        if is_code and not code:
            out.append("@verbatim")
        if code and not is_code and text.strip():
            while out and not out[-1].strip():
                out.pop()
            out.append("@endverbatim")
        if listed and out and out[-1].strip() and not re.match(r" +\S", out[-1]):
            out.append("")
        code = is_code or (code and not text.strip())
        out.append(text if code else escape(text, r"\\@#*<>~%$"))
    if code:
        out.append("@endverbatim")
    return out


HEADERS = {path: path.read_text().replace("::CUBIST_ABI", "") for path in pathlib.Path("include").rglob("*.hpp")}
DERIVED = [pair for text in HEADERS.values() for pair in re.findall(r"^class (\w+)(?:<[^{;]*>)? : public ((?:detail::)?\w+)<", text, re.M)]
BASES = {base[8:] for _, base in DERIVED if base.startswith("detail::")}
BASES |= {base for derived, base in DERIVED if derived in BASES}


def with_public_bases(text):
    """The header with the classes of BASES in namespace cubist, and without their protected members."""
    text = re.sub(r"\bdetail::(?=(\w+)<)", lambda name: "" if name.group(1) in BASES else name.group(0), text)

    def move(match):
        before = text[:match.start()]
        nested = before.rfind("\nnamespace detail\n") > before.rfind("\nnamespace cubist")
        close, reopen = ("}", "namespace detail\n{") if nested else ("}\nnamespace cubist\n{", "}\nnamespace cubist::detail\n{")
        return f"\n{close}\n\n{match.group(1)}\n{reopen}\n".replace("\n protected:\n", "\n private:\n")

    return re.sub(rf"\n((?:.+\n)*class (?:{'|'.join(sorted(BASES))})\b[^;{{]*\n{{\n(?:.*\n)*?}};\n)", move, text)


def documented(path):
    lines = with_public_bases(HEADERS[path]).split("\n")
    opening = next((i for i, l in enumerate(lines) if l.startswith("// ") and "SPDX" not in l), len(lines))
    end = opening
    while end < len(lines) and lines[end].startswith("//"):
        end += 1
    about = as_markdown(lines[opening:end])
    out = ["/** @file"] + about + ["*/"]
    own_names = {path.stem.replace("_", "") + suffix for suffix in ("", "type")}

    scopes = [[0, "namespace", False]]  # indentation of its declarations, kind, whether they are private
    start, text = None, ""  # of the declaration that the lines so far began
    in_body = False
    overloads, above = {}, []  # the last comment by the name that it documents; the one directly above

    def finish(line, is_head=False):
        nonlocal start, text, in_body, overloads, above
        _, kind, is_private = scopes[-1]
        name = name_of(text)
        is_name = not without_template(text).startswith(("static_assert", "using namespace", "namespace"))
        is_data = kind in ("class", "struct") and not is_head and not re.search(r"\(|^ *using |\bstatic\b|^ *template", text)
        known = DATA if is_data else CONVENTIONS
        trailing = re.match(r"(.*?\S) +// (.*)$", line)
        if above:
            overloads = {name: above}
        elif is_private or not is_name or "///<" in line:
            pass
        elif trailing and not is_head:
            out[-1] = f"{trailing.group(1)}  ///< {trailing.group(2)}"
        elif len(scopes) == 1 and re.sub("^basic", "", name.lower()) in own_names:
            out[start:start] = ["/**"] + about + ["*/"]
        elif name in overloads:
            out[start:start] = [part for part in overloads[name] if "@param" not in part]
        elif name in known:
            out[start:start] = ["/// " + known[name]]
        if is_head:
            overloads = {}
        start, text, above, in_body = None, "", [], False

    for number, line in enumerate(lines):
        if opening <= number < end:
            continue
        code = re.sub(r" *//.*", "", line)
        indent, kind, _ = scopes[-1]
        depth = len(line) - len(line.lstrip())
        if re.match(r" *#define (?!.*\\$)", line) and not above:
            out += ["/** @cond */", line, "/** @endcond */"]  # internal
            continue
        out.append(line if not line.lstrip().startswith("///") else escape(line, r"\\#<>~%"))
        if not code.strip() or code.startswith("#"):
            if start is None and line.strip().startswith("///"):
                above.append(out[-1])
            elif start is None and not line.strip():
                overloads, above = {}, []
        elif depth == indent - 2 and code.strip().startswith("}"):
            scopes.pop()
            overloads, above = {}, []
        elif depth == indent - 1 and code.strip().endswith(":"):
            overloads, above = {}, []
            scopes[-1][2] = code.strip() != "public:"
        elif depth == indent and code.strip() == "{":
            scope = CLASS.match(without_template(text))
            if scope and scope.group(1) != "namespace" and start is not None:
                out.pop()
                finish(line, is_head=True)
                out.append(line)
                scopes.append([indent + 2, scope.group(1), scope.group(1) == "class"])
            else:
                in_body = start is not None
                if not in_body or text.startswith("namespace"):
                    start, text, in_body, above = None, "", False, []
        elif depth == indent and code.strip().startswith("}"):
            if start is not None:
                finish(line)
        elif not in_body and (depth == indent or start is not None):
            if start is None:
                start = len(out) - 1
            text += code + " "
            ends = code.rstrip().endswith((";", "}", ",") if kind.startswith("enum") else (";", "}"))
            last = kind.startswith("enum") and lines[number + 1].strip().startswith("}")
            whole = all(text.count(opened) == text.count(closed) for opened, closed in ("()", "{}"))
            if (ends or last) and whole and lines[number + 1].strip() != "{":
                finish(line)
    return "\n".join(out)


for header in HEADERS:
    target = pathlib.Path(sys.argv[1]) / header
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(documented(header))

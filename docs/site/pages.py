#!/usr/bin/env python3
"""pages.py FOLDER TAGFILE: copies the repository's pages to a folder from which MkDocs makes the site.

1. A link to a source file leads to a page that shows it, a link to a folder to its README.md.
2. The first mention of a public type on a page links to its API page, as Doxygen's tag file has it."""
import html
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

target, tags = pathlib.Path(sys.argv[1]), xml.parse(sys.argv[2])
pages = [pathlib.Path(name) for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "packaging/README.md")]
pages += [page for page in pathlib.Path("docs").rglob("*.md") if page.parent.name != "site"]

api = {}
for compound in tags.getroot().iter("compound"):
    name = compound.findtext("name")
    if compound.get("kind") in ("class", "struct", "concept") and name.startswith("cubist::") and name.count("::") == 1:
        api[name[8:].split("<")[0].strip()] = compound.findtext("filename")
    if name == "cubist":
        for member in compound.iter("member"):
            if member.get("kind") in ("typedef", "enumeration", "function"):
                api.setdefault(member.findtext("name"), f'{member.findtext("anchorfile")}#{member.findtext("anchor")}')
api = {name: file if ".html" in file else file + ".html" for name, file in api.items()}


def write(path, text):
    (target / path).parent.mkdir(parents=True, exist_ok=True)
    (target / path).write_text(text)


def copy(page):
    up = "../" * (len(page.parts) - 1)
    linked = set()

    def link(match):
        path, anchor = re.match(r"([^#]*)(#.*)?", match.group(1)).groups()
        source = pathlib.Path(page.parent, path)
        if not path or "://" in path or path.endswith(".md") or not source.exists():
            return match.group(0)
        if source.is_dir():
            return f"]({path}/README.md{anchor or ''})"
        if source.suffix == ".svg":
            write(source, source.read_text())
            return match.group(0)
        language = {".cpp": "c++", ".hpp": "c++", ".cu": "c++", ".py": "python"}.get(source.suffix, "sh")
        write(f"{source}.md", f"# {os.path.normpath(source)}\n\n~~~~{language}\n{source.read_text()}~~~~\n")
        return f"]({path}.md)"

    def mention(match):
        name = match.group(1)
        file = api.get(re.sub(r"^cubist::|[<({].*", "", name))
        if name in linked or not file or (match.group(1)[0].islower() and "(" not in name and "::" not in name):
            return match.group(0)
        linked.add(name)
        return f'<a href="{up}api/{file}"><code>{html.escape(name)}</code></a>'

    out, fenced, in_list, has_paragraphs = [], False, False, False
    for line in page.read_text().split("\n"):
        fence = line.lstrip().startswith("```")
        if not fenced and not fence:
            line = re.sub(r"\]\(([^)\s]+)\)", link, line)
            if not line.startswith("#"):
                line = re.sub(r"(?<![\[`])`([\w:]+(?:<[^`]*>)?(?:\(\))?)`(?![\]`])", mention, line)
            # GitHub needs no empty line before a list, nor before an item whose predecessor has several paragraphs. Python-Markdown does.
            item = re.match(r"(\* |\d+\. )", line)
            if item and out and out[-1].strip() and (has_paragraphs or not in_list):
                out.append("")
            has_paragraphs = in_list and not item and (has_paragraphs or not line.strip())
            in_list = bool(item) or (in_list and (not line.strip() or line.startswith(" ") or bool(out[-1].strip())))
        fenced ^= fence
        out.append(line)
    write(page, "\n".join(out))


for page in pages:
    copy(page)
write("docs/site/guide.css", pathlib.Path("docs/site/guide.css").read_text())

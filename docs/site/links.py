#!/usr/bin/env python3
"""links.py SITE: exits with 1 if a link of the site, or of a page of the repository, leads nowhere.

Of other sites only the form of the address is checked: no request is sent."""
import html.parser
import pathlib
import re
import sys
import urllib.parse

ids, links = {}, []


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path = path
        ids[path] = {""}
        self.feed(path.read_text(errors="replace"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        ids[self.path] |= {values[name] for name in ("id", "name") if values.get(name)}
        links.extend((self.path, values[name]) for name in ("href", "src") if values.get(name) is not None)


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def read_markdown(path):
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.M | re.S)
    ids[path] = {""} | {slug(heading) for heading in re.findall(r"^#+ (.*)", text, re.M)}
    links.extend((path, link) for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)))


site = pathlib.Path(sys.argv[1]).resolve()
for page in site.rglob("*.html"):
    Page(page)
for page in pathlib.Path().rglob("*.md"):
    if page.parts[0] != "build" and not page.parts[0].startswith("."):
        read_markdown(page.resolve())

dead = []
for page, link in links:
    address = urllib.parse.urlsplit(link)
    if address.scheme in ("mailto", "data", "javascript"):
        continue
    if address.scheme or address.netloc:
        if address.scheme not in ("http", "https") or "." not in address.netloc:
            dead.append((page, link))
        continue
    target = page if not address.path else pathlib.Path(page.parent, urllib.parse.unquote(address.path)).resolve()
    if target == site:
        target = site / "index.html"
    anchor = urllib.parse.unquote(address.fragment)
    if not target.exists() or (target in ids and anchor not in ids[target] and anchor != "top"):
        dead.append((page, link))

for page, link in sorted(set(dead)):
    print(f"{page.relative_to(pathlib.Path.cwd())}: dead link: {link}", file=sys.stderr)
print(f"{len(links)} links on {len(ids)} pages, {len(dead)} of them dead")
sys.exit(bool(dead))

"""Hooks of MkDocs, which mkdocs.yml names."""
import re

from markdown.extensions import Extension
from mkdocs.structure.nav import Link


class TwoSpaces(Extension):
    """Lists are indented by two spaces, as on GitHub."""

    def extendMarkdown(self, md):
        md.tab_length = 2


def on_config(config):
    config["markdown_extensions"].append(TwoSpaces())
    return config


def on_nav(nav, config, files):
    reference = next(item for item in nav.items if item.title == "Reference")
    api = Link("API", "api/index.html")
    api.parent = reference
    reference.children.insert(0, api)
    return nav


def on_page_content(html, page, config, files):
    """Marks options in inline code, so that guide.css keeps browsers from breaking a line after their first hyphen."""
    option = re.compile(r"(?<=[\s>])-[^\s<]+")
    return re.sub(r"<code>[^<]*</code>", lambda code: option.sub(r'<span class="option">\g<0></span>', code[0]), html)

"""Hooks of MkDocs, which mkdocs.yml names."""
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

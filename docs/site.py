"""What MkDocs needs to read README and docs as they are: the README as first page, links that leave
the site to files of the checkout, and references between docstrings as code.

A link to a file that does not exist ends the build.
"""

import re
from pathlib import Path
from posixpath import normpath, relpath

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ROLE = re.compile(r":(?:func|class|mod|meth|data|attr):<code>~?([^<]+)</code>")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    readme = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=readme))
    return files


def on_page_markdown(markdown, page, config, files):
    folder = "" if page.file.src_uri == "index.md" else "docs"
    parts = _FENCE.split(markdown)  # code has no links
    return "".join(p if p.startswith("```") else _linked(p, folder, page) for p in parts)


def on_page_content(html, page, config, files):
    return _ROLE.sub(r"<code>\1</code>", html)


def _linked(markdown, folder, page):
    def link(found):
        image, label, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, _, anchor = target.partition("#")
        place = normpath(f"{folder}/{path}" if folder else path)
        if not (ROOT / place).exists():
            raise PluginError(f"{page.file.src_uri}: there is no {place} to link to")
        anchor = anchor and f"#{anchor}"
        if place == "README.md":
            return f"{image}[{label}](index.md{anchor})"
        if place.startswith("docs/"):
            return f"{image}[{label}]({place.removeprefix('docs/')}{anchor})"
        return f'<a href="{relpath(place, "build/site")}{anchor}">{label}</a>'

    return _LINK.sub(link, markdown)

"""Rules of what a document leads to: links, names of files, what can be reached, places that exist on one machine only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .bundle import Bundle, Fault, tree_of

NAMED = re.compile(r"(?<![\w/.<>-])((?:BUNDLE/|\.\./)*(?:skills/[\w-]+/)?(?:scripts|references|assets)/[\w./-]*\w)")
MACHINE = re.compile(r"(?<![\w.>/])(?:/(?:home|root|work|tmp|Users|mnt|opt|usr|var|private)/|[A-Z]:\\)|(?<![\w/])~[/](?!\.\w)")
RELATIVE_SCRIPT = re.compile(r"(?<![\w/-])(?:python3?|nproc_per_node \d+) (?:scripts|skills)/")


def anchors(text: str) -> set[str]:
    """The names under which a page's headings can be linked."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(bundle: Bundle) -> Iterator[Fault]:
    """Every link leads to a file of the bundle, and to a heading of it."""
    for path in bundle.documents:
        for number, target in bundle.targets(path):
            name, _, anchor = target.partition("#")
            file = (bundle.root / path.parent / name).resolve() if name else bundle.root / path
            if not file.is_file() or not file.is_relative_to(bundle.root):
                yield Fault(f"{path}:{number}", f"a link to {target}, which is no file of the bundle", "correct the path")
            elif anchor and anchor not in anchors(bundle.text(file.relative_to(bundle.root))):
                yield Fault(f"{path}:{number}", f"no heading #{anchor} in {name or path}", "take one of its headings")


def files_named(bundle: Bundle) -> Iterator[Fault]:
    """Files that a text or a command names exist, from the bundle's folder or from the document's own skill."""
    for path in bundle.manuals:
        skill = bundle.root.joinpath(*path.parts[:2]) if path.parts[0] == "skills" else bundle.root
        for number, line in bundle.lines(path):
            for name in NAMED.findall(line):
                bare = name.removeprefix("BUNDLE/")
                places = [bundle.root, *([] if name != bare else [skill, bundle.root / path.parent])]
                if not any((place / bare).exists() for place in places):
                    yield Fault(f"{path}:{number}", f"{name} is named and is not there", "correct the name")


def reached(bundle: Bundle) -> set[Path]:
    """The documents that links lead to from the root, one after another."""
    seen: set[Path] = set()
    queue = [Path("SKILL.md")]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        for _, target in bundle.targets(path):
            file = (bundle.root / path.parent / target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.is_file() and file.is_relative_to(bundle.root):
                queue.append(file.relative_to(bundle.root))
    return seen


def shipped(bundle: Bundle) -> list[Path]:
    """Everything that a reader of the skill is to find."""
    return bundle.find("references/**/*", "scripts/**/*", "skills/**/*")


def modules_beside(bundle: Bundle, script: Path) -> set[Path]:
    """Files that a script imports from its own folder, and those that these import."""
    found: set[Path] = set()
    queue = [script]
    while queue:
        path = queue.pop()
        for node in ast.walk(tree_of(bundle.text(path))):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            folder = path.parent if node.level else script.parent
            module = folder.joinpath(*node.module.split("."))
            names = [module.with_suffix(".py"), module / "__init__.py", *(module / f"{name.name}.py" for name in node.names)]
            new = [each for each in names if (bundle.root / each).is_file() and each not in found]
            found.update(new)
            # A package runs its first file whenever one of its modules is imported.
            found.update(each.parent / "__init__.py" for each in new if (bundle.root / each.parent / "__init__.py").is_file())
            queue += new
    return found


def reachable(bundle: Bundle) -> Iterator[Fault]:
    """Documents are reached by links; other files are named where their users read: a script in its router, else on a page."""
    seen = reached(bundle)
    said = "\n".join(bundle.text(path) for path in sorted(seen))
    imported = {each for script in bundle.scripts for each in modules_beside(bundle, script)}
    for path in shipped(bundle):
        if path.suffix == ".md":
            if path not in seen:
                yield Fault(
                    f"{path}:1", "no link from SKILL.md leads here", f"link it from {bundle.router(path.parent.parent)}"
                )
        elif path in bundle.scripts:
            router = bundle.router(path.parent.parent)
            if f"scripts/{path.name}" not in bundle.text(router):
                yield Fault(f"{router}:1", f"scripts/{path.name} is not named", "say what it is for, in one line")
        elif path not in imported and not re.search(rf"(?<![\w-]){re.escape(path.name)}(?!\w)", said):
            yield Fault(f"{path}:1", "no page that SKILL.md leads to names it", "name it, or delete the file")


def machine_paths(bundle: Bundle) -> Iterator[Fault]:
    """No path that exists on one machine, and no command that works from one folder only."""
    for path in looked_at_for_paths(bundle):
        for number, line in bundle.lines(path):
            if MACHINE.search(line) and not line.startswith("#!"):
                cure = "take a relative path, BUNDLE or a flag"
                yield Fault(f"{path}:{number}", f"an absolute or home path: {MACHINE.findall(line)[0]}", cure)
    for path in bundle.manuals:
        # The README says that its commands are run from its folder.
        if path == Path("README.md"):
            continue
        for number, line in bundle.lines(path):
            if RELATIVE_SCRIPT.search(line):
                what = "a script by a path that depends on the working directory"
                yield Fault(f"{path}:{number}", what, "begin the path with BUNDLE/")


def looked_at_for_paths(bundle: Bundle) -> list[Path]:
    """Documents, sources and templates."""
    templates = bundle.find("skills/*/assets/**/*", "references/*.yaml")
    return [*bundle.documents, *bundle.sources, *templates]

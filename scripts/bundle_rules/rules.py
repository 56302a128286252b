"""All rules, in the order in which they are told."""

from __future__ import annotations

from .bundle import Rule
from .commands import flags, helps
from .links import files_named, links, looked_at_for_paths, machine_paths, reachable, shipped
from .skills import budgets, front_matter, routes, sections
from .sources import codes, encodings, never_called
from .versions import files, staleness, table

RULES = (
    Rule("front-matter", lambda bundle: bundle.skills, front_matter),
    Rule("budgets", lambda bundle: [*bundle.skills, *bundle.references], budgets),
    Rule("sections", lambda bundle: bundle.sub_skills, sections),
    Rule("routes", lambda bundle: bundle.skills, routes),
    Rule("links", lambda bundle: bundle.documents, links),
    Rule("files-named", lambda bundle: bundle.manuals, files_named),
    Rule("reachable", shipped, reachable),
    Rule("machine-paths", looked_at_for_paths, machine_paths),
    Rule("flags", lambda bundle: bundle.manuals, flags),
    Rule("codes", lambda bundle: [*bundle.manuals, *bundle.sources], codes),
    Rule("help", lambda bundle: bundle.scripts, helps),
    Rule("never-called", lambda bundle: bundle.sources, never_called),
    Rule("encodings", lambda bundle: bundle.sources, encodings),
    Rule("tested-versions", files, table),
)
VERSIONS = Rule("installed-versions", files, staleness)
"""Asked for by a flag: a bundle is no worse where other versions are installed, but its proof ends there."""

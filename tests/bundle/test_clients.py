"""Each client's own listing shows exactly one skill. Slow, and skipped where a client is not installed."""

from __future__ import annotations

import pytest

from . import clients

pytestmark = pytest.mark.slow


@pytest.fixture(params=clients.LISTINGS)
def listing(request, tmp_path):
    """A client, what lists its skills in an empty home folder, and the folders."""
    client, _, names = clients.LISTINGS[request.param]
    if clients.program(client) is None:
        pytest.skip(f"{client} is not installed: not on the path, and {clients.VARIABLES[client][0]} is not set")
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    before = names(home, project)
    assert not [name for name in before if "bert" in name]
    return client, home, project, lambda: [name for name in names(home, project) if name not in before]


def test_two_copies_for_all_clients_list_one_skill(listing):
    _, home, _, added = listing
    clients.install(home, "--client", "all")
    assert added() == ["bert-pytorch"]
    clients.install(home, "--client", "all", "--uninstall")
    assert added() == []


def test_a_copy_in_the_clients_own_folder_lists_one_skill(listing):
    client, home, _, added = listing
    clients.install(home, "--client", client)
    assert added() == ["bert-pytorch"]


def test_a_copy_in_a_project_lists_one_skill(listing):
    client, home, project, added = listing
    if client == "gemini":
        # It reads a project's skills once the user has trusted the folder.
        (home / ".gemini").mkdir(exist_ok=True)
        (home / ".gemini" / "trustedFolders.json").write_text(f'{{"{project}": "TRUST_FOLDER"}}')
    clients.install(home, "--client", client, "--scope", "project", "--project", str(project))
    assert added() == ["bert-pytorch"]

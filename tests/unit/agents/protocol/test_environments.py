"""What an agent reads of uv: lists of packages, sentences, ports; and environments in messages."""

import json
import os
from pathlib import Path

import pytest

from agents.environments.keeper import BuildSettings, Keeper
from agents.environments.pins import entries, pin_of, preferences, to_install
from agents.environments.store import MADE, ORDER, EnvironmentStore, state_json
from agents.environments.uv import blames_file, ports_of, sentence_of, settings_of, tag_of
from agents.host.process import HostProcesses
from agents.protocol.desired_state import DesiredState
from agents.protocol.environments import (
    MOST_ENVIRONMENTS,
    EnvironmentReport,
    EnvironmentWanted,
    files_pack,
    files_unpack,
)
from agents.protocol.errors import Malformed
from agents.protocol.ports import SpawnRequest

DIGEST = "a" * 64
NONE = "  x No solution found when resolving dependencies:\n  : Because"
FETCH = "error: Failed to fetch: `https://x/a.whl`\n  Caused by"
RESOLVED = """# made by uv
Einops==0.8.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
--index-url https://example.org
torch==2.5.1 ; sys_platform == 'linux'
typing_extensions==4.1
local @ https://example.org/x.whl
"""


def test_a_package_keeps_its_hashes_and_options_are_none() -> None:
    """Four packages."""
    found = entries(RESOLVED)
    assert [pin_of(entry) for entry in found] == [
        ("einops", "0.8.1"),
        ("torch", "2.5.1"),
        ("typing-extensions", "4.1"),
        None,
    ]
    assert found[0].count("--hash") == 2


@pytest.mark.parametrize(
    ("has", "asked", "installs"),
    [
        ("2.5.1", "2.5.1", False),
        ("2.5.1+cpu", "2.5.1", False),
        ("2.5.1+cpu", "2.5.1+cu121", True),
        ("2.5", "2.6", True),
    ],
)
def test_what_is_there_at_the_version_is_not_installed(has: str, asked: str, installs: bool) -> None:
    """A local part counts only where it is asked for."""
    assert bool(to_install([f"torch=={asked}"], {"torch": has})) == installs


def test_preferences_leave_local_parts_out() -> None:
    """An index has the version under another one."""
    assert preferences({"torch": "2.5.1+cpu", "numpy": "2.0"}) == "numpy==2.0\ntorch==2.5.1\n"


def test_the_sentence_is_what_uv_gives_as_the_reason() -> None:
    """On one line, without its marks and words of its own."""
    said = ["Using CPython 3.11", "error: No solution found", "  cause: Because x was not found, it is unsatisfiable."]
    assert sentence_of(said) == "No solution found: Because x was not found, it is unsatisfiable."
    older = ["  \u00d7 No solution found:", "  \u2570\u2500\u25b6 Because x was not found", "      and more."]
    assert sentence_of(older) == "No solution found: Because x was not found and more."
    assert sentence_of(["one", "two"]) == "two"
    assert sentence_of([]) == ""
    assert len(sentence_of(["error: " + "x" * 1000])) == 300


def test_only_the_settings_of_the_admin_reach_uv() -> None:
    """And the ports that are in them can be reached."""
    settings = settings_of(
        {"UV_DEFAULT_INDEX": "https://u:p@pypi.example:8443/simple", "HTTPS_PROXY": "http://proxy:3128", "KEY": "x"}
    )
    assert sorted(settings) == ["HTTPS_PROXY", "UV_DEFAULT_INDEX"]
    assert ports_of(settings) == (53, 80, 443, 3128, 8443)


def test_another_index_or_base_makes_environments_anew_and_a_proxy_does_not() -> None:
    """By the tag of their folders."""
    tag = tag_of({}, {"torch": "2.5"})
    assert tag == tag_of({"HTTPS_PROXY": "http://proxy:1"}, {"torch": "2.5"})
    assert tag != tag_of({"UV_DEFAULT_INDEX": "https://other"}, {"torch": "2.5"})
    assert tag != tag_of({}, {"torch": "2.6"})


def test_files_travel_packed_and_are_checked() -> None:
    """Of a kind all files and no others."""
    files = {"uv.lock": "x" * 100_000, "pyproject.toml": "y"}
    packed = files_pack(files)
    assert len(packed) < 1000
    assert files_unpack(packed, "lock") == files
    for bad in (
        files_pack({"uv.lock": "x"}),
        "no base64",
        packed[:40],
        files_pack({**files, "pyproject.toml": "\x00"}),
    ):
        with pytest.raises(Malformed):
            files_unpack(bad, "lock")


def test_messages_of_the_release_before_have_no_environments() -> None:
    """And those of this one give them back."""
    plain = {"lease_ttl_s": 30.0, "acknowledged_sequence": 1, "attempts": []}
    assert DesiredState.parse(plain).environments == ()
    wanted = EnvironmentWanted(digest=DIGEST, ask=3, queue_id=1, kind="requirements", packed="")
    desired = DesiredState(lease_ttl_s=30.0, acknowledged_sequence=1, attempts=(), environments=(wanted,))
    assert DesiredState.parse(desired.to_json()) == desired


def test_a_report_of_the_release_before_blames_the_files() -> None:
    """It says nothing of whose fault a failure is; then jobs end, as they did."""
    said = state_json(EnvironmentReport(digest=DIGEST, state="failed", is_passing=True))
    assert EnvironmentReport.parse(said).is_passing
    del said["is_passing"]
    assert not EnvironmentReport.parse(said).is_passing


@pytest.mark.parametrize(
    ("said", "is_of_file"),
    [
        (
            "  x No solution found when resolving dependencies:\n  : Because a was not found in the package registry",
            True,
        ),
        (f"{NONE} there is no version of a==9", True),
        ("error: Couldn't parse requirement in `requirements.txt` at position 0", True),
        ("  x Failed to build `a==1`\n  : The build backend returned an error", True),
        ("  x Failed to download `a==1`\n  : Hash mismatch for `a==1`", True),
        (
            "error: Failed to fetch: `https://x/a.whl`\n  Caused by: HTTP status client error (404 Not Found) for url",
            True,
        ),
        (
            "error: Failed to fetch: `https://x/simple/a/`\n  Caused by: Request failed after 3 retries\n"
            "  Caused by: error sending request for url (https://x/simple/a/)\n  Caused by: client error (Connect)\n"
            "  Caused by: dns error: failed to lookup address information",
            False,
        ),
        (
            "error: Failed to fetch: `https://x/a/`\n  Caused by: HTTP status server error (503 Service Unavailable)",
            False,
        ),
        (
            f"{NONE} a was not found in the package registry\n"
            "  hint: An index URL (https://x) could not be queried (401 Unauthorized).",
            False,
        ),
        ("  x Failed to build `a==1`\n  Caused by: No space left on device (os error 28)", False),
        ("error: failed to write to file: No space left on device (os error 28)", False),
        ("  x Failed to build `a==1`\n  Build backend failed with signal: 9 (SIGKILL)", False),
        ("", False),
        ("thread 'main' panicked at src/lib.rs", False),
    ],
)
def test_only_the_words_of_uv_blame_the_files(said: str, is_of_file: bool) -> None:
    """Whatever else goes wrong may pass; where both are said the index or the disk is to blame."""
    assert blames_file(said.splitlines()) == is_of_file


@pytest.mark.parametrize("changes", [{"state": "odd"}, {"digest": "x"}, {"build_s": -1}, {"tail": "x" * 4000}])
def test_a_report_that_is_out_of_range_is_refused(changes: dict[str, object]) -> None:
    """As any other message."""
    good = {
        name: getattr(EnvironmentReport(digest=DIGEST, state="ready"), name) for name in EnvironmentReport.__slots__
    }
    assert EnvironmentReport.parse(good).state == "ready"
    with pytest.raises(Malformed):
        EnvironmentReport.parse({**good, **changes})


def test_a_server_that_keeps_more_than_a_report_holds_tells_the_wanted_and_the_newest(tmp_path: Path) -> None:
    """A longer list would be refused with its whole report, and the server be given up for lost."""
    store = EnvironmentStore(tmp_path, tag="t")
    digests = [f"{number:064x}" for number in range(MOST_ENVIRONMENTS + 2)]
    digests = [digest[::-1] for digest in digests]  # folders are named by the first letters
    for used_s, digest in enumerate(digests, start=1):
        folder = tmp_path / store.name_of(digest)
        folder.mkdir()
        (folder / ORDER).write_text(json.dumps({"digest": digest, "ask": 1, "queue_id": 1, "starts": 1}))
        (folder / MADE).write_text(json.dumps(state_json(EnvironmentReport(digest=digest, state="ready"))))
        os.utime(folder / MADE, (used_s, used_s))
    settings = BuildSettings(
        uv="",
        python="",
        base="",
        variables={},
        timeout_s=1.0,
        cache_bytes=2**30,
        first_uid=None,
        memory_bytes=1,
        disk_bytes=1,
    )
    keeper = Keeper(store, settings, builders=HostProcesses(), request=_nothing_is_built)
    wanted = EnvironmentWanted(digest=digests[0], ask=7, queue_id=1, kind="requirements")

    told = keeper.align([wanted], in_use=())

    assert {one.digest for one in told} == {digests[0], *digests[3:]}
    assert [one.ask for one in told if one.digest == digests[0]] == [7]


def _nothing_is_built(name: str, folder: str) -> SpawnRequest:
    raise AssertionError(name)

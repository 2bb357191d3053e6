"""The containers of docker-compose.yml: what each may do, what it is told, how one sees that it is well."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from clusterweb.config.env import BASE_DIR
from scheduler.management.broker_users import PROCESSES

Json = dict[str, Any]  # YAML
TEXT = (BASE_DIR / "docker-compose.yml").read_text()


def resolved(environ: Mapping[str, str]) -> Json:
    """Return the file as compose reads it; a variable without a default is ``set``."""

    def value(found: re.Match[str]) -> str:
        return environ.get(found["name"], found["default"] if found["default"] is not None else "set")

    text = re.sub(r"(?<!\$)\$\{(?P<name>[A-Z_]+)(?::-(?P<default>[^}]*)|:\?[^}]*)?\}", value, TEXT)
    read: Json = yaml.safe_load(text)
    return read


SERVICES: dict[str, Json] = resolved({})["services"]
ONCE = {"migrate", "manage"}
# The threads of each worker are started in these files.
THREADS = {
    "scheduler": ["scheduler/live/worker.py"],
    "simulations": ["scheduler/whatif/worker.py", "scheduler/notices/worker.py"],
}


def user_of(name: str) -> str | None:
    """Return the broker user of a service."""
    return urlsplit(str(SERVICES[name]["environment"]["REDIS_URL"])).username


@pytest.mark.parametrize("name", SERVICES)
def test_container_has_no_more_than_it_needs(name: str) -> None:
    """No capability that is not named, none to be had later, and a bound on its memory unless jobs are in it."""
    service = SERVICES[name]

    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert name == "agent" or int(str(service["mem_limit"]).rstrip("mg")) > 0
    assert not {"privileged", "pid", "ipc", "network_mode", "devices"} & set(service)
    assert ("cap_add" in service) == (name == "database")


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONCE))
def test_container_says_whether_it_is_well(name: str) -> None:
    """By a command that is in its image."""
    test = SERVICES[name]["healthcheck"]["test"]

    if "-m" in test:
        module = test[test.index("-m") + 1]
        assert test[:2] == ["CMD", "python"]
        assert find_spec(module) is not None


@pytest.mark.parametrize("name", THREADS)
def test_health_of_a_worker_is_that_of_each_of_its_threads(name: str) -> None:
    """A thread that is added is watched, too."""
    started = [
        thread
        for path in THREADS[name]
        for thread in re.findall(r'threads\.start\(\s*"([a-z-]+)"', (BASE_DIR / path).read_text())
    ]
    _, _, _, module, _, *watched = SERVICES[name]["healthcheck"]["test"]

    assert module == "clusterweb.config.alive"
    assert sorted(watched) == sorted(started)


def test_each_process_has_a_user_of_its_own_at_the_broker() -> None:
    """Who may make users is known to commands of an admin alone."""
    assert {name: user_of(name) for name in PROCESSES} == {name: name for name in PROCESSES}
    assert user_of("beat") == "scheduler"
    assert {user_of(name) for name in ONCE} == {""}
    assert TEXT.count("REDIS_PASSWORD") == 4  # each of two places says what is missing


def test_no_password_stands_in_a_command_line() -> None:
    """Every user of the machine can read those."""
    for name, service in SERVICES.items():
        told = f"{service.get('command')} {service.get('healthcheck')}"
        assert "PASSWORD" not in told, name
        assert "AUTH" not in re.sub(r"printf [^;]+;", "", told), name  # a word of the shell starts no process


def test_agent_is_told_nothing_of_others() -> None:
    """One file with its key, a folder for its state, and the files of attempts; no database, no key of the product."""
    agent = SERVICES["agent"]
    elsewhere = [str(SERVICES[name].get("volumes")) for name in set(SERVICES) - {"agent"}]

    assert agent["environment"] == {"AGENT_CONFIG": "/run/secrets/agent"}
    assert agent["secrets"] == ["agent"]
    assert agent["networks"] == ["broker"]
    assert sorted(volume.partition(":")[0] for volume in agent["volumes"]) == ["agent", "shared"]
    assert not [volumes for volumes in elsewhere if "'agent:" in volumes]


@pytest.mark.parametrize("environ", [{}, {"SUBNET": "10.9.0.0/16", "GATEWAY": "10.9.0.1"}])
def test_no_address_that_a_job_can_have_is_believed(environ: dict[str, str]) -> None:
    """Jobs are in the agent's container: of its networks web believes the gateway alone, which is fixed."""
    file = resolved(environ)
    believed = file["services"]["web"]["environment"]["FORWARDED_ALLOW_IPS"].split(",")
    of_agent = [
        config for name in file["services"]["agent"]["networks"] for config in file["networks"][name]["ipam"]["config"]
    ]

    assert all(ip_address(config["gateway"]) in ip_network(config["subnet"]) for config in of_agent)
    assert believed == [config["gateway"] for config in of_agent]


def test_every_variable_is_explained() -> None:
    """In the example that admins copy."""
    example = (BASE_DIR / ".env.example").read_text()

    assert [name for name in set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", TEXT)) if f"{name}=" not in example] == []

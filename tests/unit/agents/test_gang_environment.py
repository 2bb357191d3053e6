"""What a process of a gang finds in its environment, and the orders that say it."""

from collections.abc import Mapping
from typing import Any

import pytest

from agents.core.environment import job_environment
from agents.core.records import Control, Launch
from agents.protocol.errors import Malformed
from agents.protocol.fields import plain
from agents.protocol.gangs import GangHost, GangOrder, host_file
from tests.support.agents.server import SERVER_ID, wanted

HOSTS = (GangHost(address="10.0.0.1", slots=4), GangHost(address="10.0.0.2", slots=2))
SECRET = "0" * 32


def order_of(rank: int, *, hosts: tuple[GangHost, ...] = HOSTS) -> GangOrder:
    """Return the place of one process."""
    size = len(hosts) or 3
    return GangOrder(
        rank=rank, size=size, version=0, members=(), address="10.0.0.1", port=20_031, secret=SECRET, hosts=hosts
    )


def environment_of(
    gang: GangOrder,
    *,
    devices: int,
    env: dict[str, str] | None = None,
    **changes: object,  # of the order
) -> Mapping[str, str]:
    """Return all variables of a process with so many devices and eight cores."""
    launch = Launch(
        server_id=SERVER_ID,
        epoch=1,
        order=wanted(
            ("torchrun", "train.py"),
            gang=gang,
            gpu_indexes=tuple(range(devices)),
            gpu_uuids=tuple(f"GPU-{index}" for index in range(devices)),
            cpu_ids=tuple(range(8)),
            env=env or {},
            grace_s=7.5,
            **changes,
        ),
        control=Control(wanted="run", generation=1, grace_s=1.0, lease_until_s=1e6, lease_margin_s=1.0),
        cpu_ids=(),
        visible_devices=tuple(str(index) for index in range(devices)),
        journal_dir="/journal",
        address="10.0.0.2",
    )
    return job_environment(
        launch,
        attempt_path="/attempts/a",
        job_path="/jobs/j/dir",
        home_path="/jobs/j/home",
        scratch_path="/scratch/a",
        resume_path="",
        interpreter="/usr/bin/python3",
        code_path="/code",
        cache_path="/cache",
        datasets_path="/datasets",
        tmp_path="/tmp/a",
        interface="eth1",
    )


def test_process_of_a_server_is_told_what_launchers_ask_for() -> None:
    """Where the first is, how many servers, which one this is, its own GPUs and all."""
    found = environment_of(order_of(1), devices=2)

    expected = {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "20031",
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "WORLD_SIZE": "6",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "20031",
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": "10.0.0.1:20031",
        "PET_RDZV_ID": SECRET,
        "CLUSTERWEB_HOSTFILE": "/attempts/a/hostfile",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "CLUSTERWEB_NUM_GPUS": "2",
        "GLOO_SOCKET_IFNAME": "eth1",
        "OMP_NUM_THREADS": "4",
    }
    assert {name: found.get(name) for name in expected} == expected
    # It is no rank itself, and the runtime's own gangs are another thing.
    assert not {"RANK", "LOCAL_RANK", "CLUSTERWEB_GANG_MEMBER", "CLUSTERWEB_GANG_FILE"} & found.keys()


def test_job_may_choose_its_network_and_its_threads() -> None:
    """What is only a default gives way; what says where the ranks are does not."""
    env = {"GLOO_SOCKET_IFNAME": "ib0", "OMP_NUM_THREADS": "1", "PET_NNODES": "9", "PET_MAX_RESTARTS": "2"}
    found = environment_of(order_of(0), devices=4, env=env)

    assert (found["GLOO_SOCKET_IFNAME"], found["OMP_NUM_THREADS"]) == ("ib0", "1")
    assert (found["PET_NNODES"], found["PET_MAX_RESTARTS"]) == ("2", "2")


def test_launchers_and_trackers_are_told_what_they_would_guess_wrong() -> None:
    """torchrun lets its ranks save as long as the job may; W&B goes on in one run. A script's own choice stays."""
    env = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7", "WANDB_RUN_ID": "mine", "WANDB_RESUME": "never"}
    first, again = (environment_of(order_of(0), devices=1, job_id="0" * 26) for _ in range(2))
    own = environment_of(order_of(0), devices=1, env=env)

    assert first["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "8"
    assert (first["WANDB_RUN_ID"], first["WANDB_RESUME"]) == (again["WANDB_RUN_ID"], "allow") == ("0" * 26, "allow")
    assert {name: own[name] for name in env} == env


def test_process_of_a_gpu_is_told_its_rank_as_before() -> None:
    """It starts no ranks, so nothing for launchers is set."""
    found = environment_of(order_of(1, hosts=()), devices=1)

    assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("1", "3", "0")
    assert found["CLUSTERWEB_GANG_FILE"] == "/attempts/a/gang.json"
    assert found["CLUSTERWEB_ADDRESS"] == "10.0.0.2"
    assert not [name for name in found if name.startswith("PET_") or name in ("NNODES", "CLUSTERWEB_HOSTFILE")]


def test_hostfile_has_a_line_for_each_server() -> None:
    """As MPI and DeepSpeed read it."""
    assert host_file(HOSTS) == b"10.0.0.1 slots=4\n10.0.0.2 slots=2\n"


def test_order_comes_back_and_one_of_before_has_no_servers() -> None:
    """A scheduler of the release before does not send them."""
    data = plain(order_of(1))
    before = {name: value for name, value in plain(order_of(1, hosts=())).items() if name != "hosts"}

    assert GangOrder.read(data) == order_of(1)
    assert GangOrder.read(before) == order_of(1, hosts=())


@pytest.mark.parametrize(
    "hosts",
    [
        [{"address": "10.0.0.1", "slots": 4}],  # rank 1 is not among them
        [{"address": "10.0.0.1", "slots": 0}, {"address": "10.0.0.2", "slots": 2}],
        [{"address": "a b\nc", "slots": 1}, {"address": "10.0.0.2", "slots": 2}],
        ["10.0.0.1", "10.0.0.2"],
        "10.0.0.1",
    ],
)
def test_strange_servers_make_an_order_malformed(hosts: Any) -> None:
    """A line break would be a line of the hostfile."""
    with pytest.raises(Malformed):
        GangOrder.read({**plain(order_of(1)), "hosts": hosts})

"""What a process of a gang finds in its environment: its place, and where the others are. Pure.

A process of a GPU is a rank. A process of a server starts the ranks of that server itself: torchrun, accelerate,
DeepSpeed and mpirun read these variables, or are given them as arguments. The names are theirs, "node" included.
"""

from collections.abc import Mapping

from agents.protocol.gangs import GangOrder

# They tell gloo and NCCL which network to use, which otherwise take the one of the machine's name.
INTERFACE_NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def process_of_gpu(gang: GangOrder, *, member: str, gang_file: str) -> Mapping[str, str]:
    """Return the variables of one rank.

    Args:
        gang: Its place.
        member: Its own attempt id.
        gang_file: Where the leader finds its members.
    """
    return {
        # The names that torch.distributed reads, so that any script finds its group.
        "RANK": str(gang.rank),
        "WORLD_SIZE": str(gang.size),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": gang.address,
        "MASTER_PORT": str(gang.port),
        "CLUSTERWEB_GANG_MEMBER": member,
        "CLUSTERWEB_GANG_VERSION": str(gang.version),
        "CLUSTERWEB_GANG_SECRET": gang.secret,
        "CLUSTERWEB_GANG_FILE": gang_file,
    }


def process_of_server(gang: GangOrder, *, host_file: str) -> Mapping[str, str]:
    """Return the variables of the process that starts the ranks of one server.

    ``PET_`` begins the variables that stand for the arguments of torchrun, so that ``torchrun train.py`` is enough.
    """
    own = str(gang.hosts[gang.rank].slots)
    servers, rank, port = str(len(gang.hosts)), str(gang.rank), str(gang.port)
    return {
        "MASTER_ADDR": gang.address,
        "MASTER_PORT": port,
        "NNODES": servers,
        "NODE_RANK": rank,
        "NPROC_PER_NODE": own,
        "LOCAL_WORLD_SIZE": own,
        "WORLD_SIZE": str(sum(host.slots for host in gang.hosts)),
        "PET_NNODES": servers,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": own,
        "PET_MASTER_ADDR": gang.address,
        "PET_MASTER_PORT": port,
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": f"{gang.address}:{port}",
        # Known to this attempt alone, so that processes of an earlier one do not meet it at a port used again.
        "PET_RDZV_ID": gang.secret,
        "CLUSTERWEB_HOSTFILE": host_file,
    }


def threads_of_ranks(*, num_cpus: int, ranks: int) -> Mapping[str, str]:
    """Return how many threads each of the ranks that share the cores of a server uses."""
    threads = str(max(1, num_cpus // max(1, ranks)))
    return {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}

"""The account of cores and memory on a board, whatever sits down and leaves."""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import Snapshot
from scheduler.core.packing import board as accounts
from scheduler.core.packing.board import Board
from scheduler.core.round.round_state import job_demands, round_state
from tests.support.simulator.strategies import GIB, JobRow, ServerRow, snapshot_of
from tests.support.suite.examples import tried


def counted(board: Board, row: int) -> int:
    """Return the free GPUs that a job may have, asked of each server for one GPU more at a time."""
    fits, free = board.fits(row), board.space.free
    assert fits is not None
    return sum(next(gpus for gpus in range(most, -1, -1) if fits(server, gpus)) for server, most in enumerate(free))


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Servers that are alike, and jobs of which each insists on cores, or on memory."""
    gpus = draw(st.sampled_from([4, 8]))
    servers = [ServerRow(num_gpus=gpus, num_cpus=3.0 * gpus, memory_bytes=64 * GIB * gpus)] * draw(st.integers(1, 4))
    per_gpu = st.tuples(st.sampled_from([0.0, 1.0, 4.0, 6.0]), st.sampled_from([0, 16, 80, 150]))
    jobs = [
        JobRow(num_gpus=size, max_servers=0, min_cpus=cpus * size, min_memory_bytes=float(memory * GIB * size))
        for size, (cpus, memory) in draw(st.lists(st.tuples(st.integers(1, 8), per_gpu), min_size=2, max_size=8))
    ]
    return snapshot_of(jobs, servers)


@tried(100)
@given(
    snapshot=clusters(), moves=st.lists(st.integers(0, 7), min_size=4, max_size=16), most=st.sampled_from([2, 4_096])
)
def test_a_job_may_fit_where_a_count_of_every_server_finds_enough(
    snapshot: Snapshot, moves: list[int], most: int
) -> None:
    """After each move, for every job, and when the account of changes begins anew."""
    config = build_config(policy="fifo", mechanism="proportional")
    demands = job_demands(snapshot.jobs, snapshot.servers, config, now_s=snapshot.now_s)
    order = snapshot.jobs.job_id.argsort()
    board = round_state(snapshot, config, queue_tree(snapshot.queues), demands, order=order).board
    assume(board.tight)
    jobs = range(len(snapshot.jobs))
    with patch.object(accounts, "_MOST_CHANGES", most):
        for move in moves:
            if move in board.seats:
                board.leave(move)
            elif move in jobs:
                gang = replace(demands.gangs[demands.shape[move]], fits=board.fits(move))
                if seats := config.locality.seats(board.space, gang):
                    board.sit(move, seats)

            told = [board.may_fit(row) for row in jobs]

            assert told == [counted(board, row) >= board.num_gpus[row] for row in jobs]

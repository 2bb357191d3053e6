"""Split the GPU-hours of the cluster by use: every GPU-second of the capacity is of exactly one kind.

What is measured and what is known of leases do not agree to the second; what is certain is taken first: broken and
allocated GPUs, then what leases say of starting, stopping and lost work, then what the devices say of the rest.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.core.model.tables import FloatArray

# useful: a device computes · stalled: its job runs, it waits for data or cores · reconfigure: a job starts, or saves a
# checkpoint to stop · lost: computed, and thrown away by a failure or preemption · idle: held by a job that uses less
# than a twentieth of it · unknown: held, and not known how far it is used · fragmented: free, while a job waits for as
# many in a better place · free · drained: server out of use · broken
KINDS = ("useful", "stalled", "reconfigure", "lost", "idle", "unknown", "fragmented", "free", "drained", "broken")


def overlap_gpu_s(begin_s: FloatArray, end_s: FloatArray, num_gpus: FloatArray, *, edges_s: FloatArray) -> FloatArray:
    """Return the GPU-seconds that intervals spend in each bucket.

    Args:
        begin_s, end_s, num_gpus: (num_intervals,); an interval that ends before it begins counts nothing.
        edges_s: (num_buckets + 1,), rising.

    Returns:
        (num_buckets,) GPU-seconds.
    """
    if not len(begin_s):
        return np.zeros(len(edges_s) - 1)
    # The integral of all intervals up to each edge; a bucket holds the difference between its two.
    until = np.clip(edges_s[:, None], begin_s, np.maximum(begin_s, end_s)) - begin_s
    total: FloatArray = until @ num_gpus
    return np.diff(total)


def gpu_seconds(
    *,
    num: FloatArray,
    drained: FloatArray,
    broken: FloatArray,
    allocated: FloatArray,
    busy: FloatArray,
    unknown: FloatArray,
    used: FloatArray,
    reconfigure: FloatArray,
    lost: FloatArray,
    fragmented_frac: FloatArray,
) -> Mapping[str, FloatArray]:
    """Return the GPU-seconds of each of ``KINDS``; for every bucket they add up to ``num``.

    Args:
        num, drained, broken, allocated: GPU-seconds that there were, that were out of use or out of order, that jobs
            held.
        busy, unknown: Of the allocated ones, those of devices in use, and of devices of which that is not known.
        used: What these devices computed: each counts as much as it was used.
        reconfigure, lost: What leases say of starting and stopping, and of work that was thrown away.
        fragmented_frac: Part of the time in which a job waited for as many GPUs as were free, in a better place.

    All are (num_buckets,); what measurements contradict is cut to what is possible.
    """
    num = np.maximum(num, 0.0)
    allocated = np.clip(allocated, 0.0, num)
    broken = np.clip(broken, 0.0, num - allocated)
    drained = np.clip(drained, 0.0, num - allocated - broken)
    unknown = np.clip(unknown, 0.0, allocated)
    busy = np.clip(busy, 0.0, allocated - unknown)
    used = np.clip(used, 0.0, busy)
    changing = np.clip(reconfigure, 0.0, allocated)
    gone = np.clip(lost, 0.0, allocated - changing)
    running = allocated - changing - gone
    # A job that starts or saves does not compute: that is the first part of the unused time.
    idle = np.clip(allocated - busy - unknown - changing, 0.0, running)
    dark = np.clip(running - idle - busy, 0.0, unknown)
    computing = running - idle - dark
    share = np.divide(used, busy, out=np.ones_like(busy), where=busy > 0)
    free = num - allocated - broken - drained
    apart = free * np.clip(fragmented_frac, 0.0, 1.0)
    return {
        "useful": computing * share,
        "stalled": computing * (1.0 - share),
        "reconfigure": changing,
        "lost": gone,
        "idle": idle,
        "unknown": dark,
        "fragmented": apart,
        "free": free - apart,
        "drained": drained,
        "broken": broken,
    }

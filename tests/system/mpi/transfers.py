# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# What MPI programs do with messages, collectives and windows, in one program: each part makes something that follows from
# the ranks alone, and rank 0 prints a digest of everything that everybody received. The same program over two transports
# prints the same lines, or one of the two is wrong; what it prints also depends on how many ranks there are.
import hashlib
import sys
from array import array

import mpi4py

mpi4py.rc.threads = False  # One-sided over messages knows no threads.

from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

# Around the sizes at which a transport changes its ways.
sizes = [0, 1, 8, 47, 48, 49, 192, 1000, 4095, 4096, 4097, 16384, 16385, 65536, 300001, 1 << 20]


def pattern(length, *seeds):
    """Bytes that follow from the seeds, and look like nobody else's."""
    word = hashlib.sha256(repr(seeds).encode()).digest()
    return bytearray((word * (length // len(word) + 1))[:length])


def report(part, received):
    """One line of rank 0 for all ranks' part."""
    mine = hashlib.sha256(bytes(received)).hexdigest()
    everybody = world.gather(mine, 0)
    if rank == 0:
        print(part, hashlib.sha256(" ".join(everybody).encode()).hexdigest()[:24], flush=True)


def ring():
    """To the right, from the left, every size, by both kinds of calls."""
    seen = bytearray()
    right, left = (rank + 1) % size, (rank - 1) % size
    for length in sizes:
        out, into = pattern(length, "ring", rank), bytearray(length)
        world.Sendrecv(out, right, 7, into, left, 7)
        seen += into
        requests = [world.Irecv(into, left, 8), world.Isend(out, right, 8)]
        MPI.Request.Waitall(requests)
        seen += into
    return seen


def unexpected():
    """Everything is sent before anything is asked for, and then asked for in the other order, by probing and without."""
    seen = bytearray()
    right, left = (rank + 1) % size, (rank - 1) % size
    small = [length for length in sizes if length <= 65536]
    requests = [world.Isend(pattern(length, "early", rank, tag), right, tag) for tag, length in enumerate(small)]
    for tag, length in reversed(list(enumerate(small))):
        status = MPI.Status()
        if tag % 2 == 0:
            world.Probe(left, tag, status)
            into = bytearray(status.Get_count(MPI.BYTE))
            world.Recv(into, left, tag)
        else:
            message = world.Mprobe(left, tag, status)
            into = bytearray(status.Get_count(MPI.BYTE))
            message.Recv(into)
        assert len(into) == length
        seen += into
    MPI.Request.Waitall(requests)
    return seen


def all_to_all():
    seen = bytearray()
    for length in [1, 8, 1000, 20000]:
        out = b"".join(pattern(length, "all", rank, to) for to in range(size))
        into = bytearray(length * size)
        world.Alltoall([out, length, MPI.BYTE], [into, length, MPI.BYTE])
        seen += into
    seen += repr(world.alltoall([(rank, to, "x" * to) for to in range(size)])).encode()
    return seen


def reductions():
    seen = bytearray()
    for length in [1, 100, 5000, 100000]:
        out = array("q", (rank * 1000003 + i * i for i in range(length)))
        for op in (MPI.SUM, MPI.MAX, MPI.BXOR):
            into = array("q", bytes(8 * length))
            world.Allreduce(out, into, op)
            seen += into.tobytes()
        part = array("q", bytes(8 * length))
        world.Scan(out, part, MPI.SUM)
        seen += part.tobytes()
    return seen


def spreading():
    seen = bytearray()
    for length in [1, 5000, 300001]:
        for root in range(min(size, 3)):
            data = pattern(length, "root", root) if rank == root else bytearray(length)
            world.Bcast(data, root)
            seen += data
        gathered = bytearray(length * size) if length < 300001 else None
        if gathered is not None:
            world.Allgather(pattern(length, "gather", rank), gathered)
            seen += gathered
    return seen


def window():
    """One-sided: each rank writes its slice of everybody's window, reads all of it, and adds where all add."""
    seen = bytearray()
    slice_bytes = 40000
    # Memory of one's own: what MPI allocates on one host lies in memory that it shares by itself, without any transport.
    memory = bytearray(slice_bytes * size + 16)
    win = MPI.Win.Create(memory, 1, comm=world)
    win.Fence()
    slices = [pattern(slice_bytes, "put", rank, to) for to in range(size)]  # Must live to the end of the epoch.
    for to in range(size):
        win.Put([slices[to], MPI.BYTE], to, (rank * slice_bytes, slice_bytes, MPI.BYTE))
    win.Fence()
    seen += memory
    into = bytearray(slice_bytes * size)
    win.Get([into, MPI.BYTE], (rank + 1) % size, (0, len(into), MPI.BYTE))
    win.Fence()
    seen += into

    # Everybody's last 16 bytes are two counters.
    counters = slice_bytes * size
    win.Lock_all()
    before, one, mine = array("q", [0]), array("q", [1]), array("q", [rank + 1])
    tickets = []
    for _ in range(20):
        win.Fetch_and_op([one, MPI.INT64_T], [before, MPI.INT64_T], 0, counters, MPI.SUM)
        win.Flush(0)
        tickets.append(before[0])
        for to in range(size):
            win.Accumulate([mine, MPI.INT64_T], to, (counters + 8, 1, MPI.INT64_T), MPI.SUM)
        win.Flush_all()
    win.Unlock_all()
    world.Barrier()
    # Who got which ticket is a matter of luck, not that each was given once.
    all_tickets = sorted(ticket for some in world.allgather(tickets) for ticket in some)
    assert all_tickets == list(range(20 * size)), all_tickets
    win.Lock(rank, MPI.LOCK_SHARED)
    seen += memory[counters:] if rank != 0 else memory[counters + 8 :]
    win.Unlock(rank)

    # Compare and swap: exactly one wins. Of the others: Open MPI 4.1's osc/rdma crashes when a rank does this to its own
    # window, over whatever transport.
    world.Barrier()
    before[0] = 0
    win.Lock(0, MPI.LOCK_SHARED)
    expected, wanted = array("q", [20 * size]), array("q", [-rank - 1])
    if rank != 0:
        win.Compare_and_swap([wanted, MPI.INT64_T], [expected, MPI.INT64_T], [before, MPI.INT64_T], 0, counters)
    win.Flush(0)
    win.Unlock(0)
    winners = world.allreduce(1 if rank != 0 and before[0] == 20 * size else 0)
    assert winners == 1, winners
    win.Free()
    return seen


parts = [ring, unexpected, all_to_all, reductions, spreading, window]
for part in parts:
    if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
        report(part.__name__, part())

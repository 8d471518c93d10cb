# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# MPI_THREAD_MULTIPLE: several threads of each rank play ping-pong with their like in the neighbour, at once, on one
# communicator, told apart by tags. Prints a digest of what all of them received.
import hashlib
import threading

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE

threads = 4
lengths = [1, 8, 48, 1000, 4096, 20000, 100000]
rounds = 6
partner = rank ^ 1
digests = [None] * threads
failures = []


def play(me):
    try:
        seen = hashlib.sha256()
        for turn in range(rounds):
            for length in lengths:
                out = bytearray([(rank * 7 + me * 31 + turn + length) % 251]) * length
                into = bytearray(length)
                if rank < partner:
                    world.Send(out, partner, me)
                    world.Recv(into, partner, me)
                else:
                    world.Recv(into, partner, me)
                    world.Send(out, partner, me)
                assert into == bytearray([(partner * 7 + me * 31 + turn + length) % 251]) * length
                seen.update(into)
        digests[me] = seen.hexdigest()
    except BaseException as error:  # pylint: disable=broad-except
        failures.append(error)
        world.Abort(1)


if partner < size:
    team = [threading.Thread(target=play, args=(me,)) for me in range(threads)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
assert not failures, failures
everybody = world.gather(digests, 0)
if rank == 0:
    print("threads", hashlib.sha256(repr(everybody).encode()).hexdigest()[:24])

"""dask_workers.py - Dask's workers, which its nannies spawn: each process has a context of its own."""
# zoo: prints right \[True, True, True, True, True, True\]
import os
import sys

from dask.distributed import Client, LocalCluster

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "common")


def work(number):
    sys.path.insert(0, FOLDER)
    import driver

    driver.start()
    data = bytes((number + place) % 251 for place in range(10000))
    return driver.sent(data) == data


if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                      local_directory=os.environ["HOME"] + "/dask") as cluster, Client(cluster) as client:
        print("right", client.gather(client.map(work, range(6))))

"""ray_workers.py - Ray's workers: each process has a context of its own; one is killed and started again."""
# zoo: prints right \[True, True, True, True, True, True\]
# zoo: prints actor True
import os
import sys

import ray

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "common")


@ray.remote
def work(number):
    sys.path.insert(0, FOLDER)
    import driver

    driver.start()
    data = bytes((number + place) % 251 for place in range(10000))
    return driver.sent(data) == data


@ray.remote
class Holder:
    def __init__(self):
        sys.path.insert(0, FOLDER)
        import driver

        driver.start()
        self.driver = driver

    def sent(self, data):
        return self.driver.sent(data) == data


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
         object_store_memory=80 << 20, _temp_dir=os.environ["HOME"] + "/ray")
print("right", ray.get([work.remote(number) for number in range(6)]))
holder = Holder.remote()
print("actor", ray.get(holder.sent.remote(b"x" * 5000)))
ray.shutdown()

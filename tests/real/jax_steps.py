"""jax_steps.py - gradient steps of a small network by JAX: with its own memory, taken as it
is needed, and with the driver's for each array.
"""
# real: needs jax jaxlib
# real: nvidia
# real: way platform XLA_PYTHON_CLIENT_ALLOCATOR=platform
# real: way bfc XLA_PYTHON_CLIENT_PREALLOCATE=false
# real: trace platform
import os

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "")
                           + " --xla_gpu_deterministic_ops=true")  # read at JAX's import
import jax  # noqa: E402 # pylint: disable=wrong-import-position
import jax.numpy as jnp  # noqa: E402 # pylint: disable=wrong-import-position

import work  # noqa: E402 # pylint: disable=wrong-import-position

jax.config.update("jax_default_matmul_precision", "highest")

STEPS, WIDTH = 60, 256


def loss(weights, data):
    hidden = data
    for weight in weights:
        hidden = jnp.tanh(hidden @ weight)
    return jnp.mean((hidden - data[:, ::-1]) ** 2)


@jax.jit
def step(weights, data):
    slopes = jax.grad(loss)(weights, data)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes)]


def main():
    if jax.default_backend() != "gpu":
        raise SystemExit("this JAX has no GPU")
    keys = jax.random.split(jax.random.PRNGKey(6), 5)
    weights = [jax.random.normal(key, (WIDTH, WIDTH)) / WIDTH ** 0.5 for key in keys[:4]]
    data = jax.random.normal(keys[4], (128, WIDTH))
    jax.block_until_ready(step(weights, data))
    work.begin()
    for _ in range(STEPS):
        weights = step(weights, data)
    jax.block_until_ready(weights)
    work.done()
    found = [value for weight in weights for value in weight.ravel().tolist()]
    print(f"loss {float(loss(weights, data)):.4g}, checksum {work.checksum(found)}")


main()

"""openmm_contexts.py - contexts of OpenMM's CUDA platform, made, stepped and ended. Positions and
forces are kernels' work: what is printed is their number."""
# zoo: prints positions 200
# zoo: prints energy Quantity
import os
import sys

import openmm as mm

for folder in sys.path:  # the plug-ins are a package of their own
    plugins = os.path.join(folder, "OpenMM.libs", "lib", "plugins")
    if os.path.exists(os.path.join(plugins, "libOpenMMCUDA.so")):
        mm.Platform.loadPluginsFromDirectory(plugins)
system = mm.System()
nonbonded, bonds = mm.NonbondedForce(), mm.HarmonicBondForce()
for _ in range(200):
    system.addParticle(39.9)
    nonbonded.addParticle(0.0, 0.3, 0.9)
bonds.addBond(0, 1, 0.1, 1000)
system.addForce(nonbonded)
system.addForce(bonds)
platform = mm.Platform.getPlatform("CUDA")
for _ in range(3):
    context = mm.Context(system, mm.VerletIntegrator(0.002), platform, {"Precision": "mixed", "DeviceIndex": "0"})
    context.setPositions([mm.Vec3(i % 6 * 0.4, i // 6 % 6 * 0.4, i // 36 * 0.4) for i in range(200)])
    state = context.getState(positions=True)
    print("positions", len(state.getPositions()))
    context.getIntegrator().step(3)
    print("energy", type(context.getState(energy=True).getPotentialEnergy()).__name__)
    del context, state

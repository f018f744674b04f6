"""faiss_index.py - FAISS's indexes on the device: vectors added and moved; searches. Kernels copy
vectors, so that their contents do not count.
"""
# zoo: prints total 5000
# zoo: prints moved 5000 100
import faiss
import numpy as np

resources = faiss.StandardGpuResources()
resources.setTempMemory(64 << 20)
print("devices", faiss.get_num_gpus())
vectors = np.random.RandomState(0).rand(5000, 64).astype("float32")
config = faiss.GpuIndexFlatConfig()
config.device = 0
index = faiss.GpuIndexFlatL2(resources, 64, config)
index.add(vectors)
print("total", index.ntotal)
for _ in range(5):
    index.search(vectors[:5], 4)
host = faiss.index_gpu_to_cpu(index)
other = faiss.index_cpu_to_gpu(resources, 0, faiss.IndexFlatIP(32))
other.add(vectors[:100, :32].copy())
print("moved", host.ntotal, other.ntotal)
print(sorted(resources.getMemoryInfo()))
del index, other

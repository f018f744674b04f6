/*
 * ring.c - MPI ranks that send what their devices hold round a ring; each rank loses one
 * allocation.
 */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>

#define WORDS 4096

static void *keep(void)
{
    void *memory = NULL;

    return cudaMalloc(&memory, 1 << 20) == cudaSuccess ? memory
                                                       : NULL; /* LEAK: keep 1048576 1 */
}

int main(int argc, char **argv)
{
    static unsigned words[WORDS];
    unsigned *there = NULL;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i + (unsigned)rank;
    if (!keep() || cudaMalloc((void **)&there, sizeof(words)) != cudaSuccess)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int turn = 0; turn < 20; turn++) {
        cudaMemcpy(there, words, sizeof(words), cudaMemcpyHostToDevice);
        cudaMemcpy(words, there, sizeof(words), cudaMemcpyDeviceToHost);
        MPI_Sendrecv_replace(words, WORDS, MPI_UNSIGNED, (rank + 1) % size, 0,
                             (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    }
    cudaFree(there);
    for (unsigned i = 0; i < WORDS; i++) {
        if (words[i] != i + (unsigned)rank)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("ring of %d: right\n", size);
    MPI_Finalize();
    return 0;
}

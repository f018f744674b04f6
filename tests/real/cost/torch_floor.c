/*
 * torch_floor.c - a pluggable allocator for PyTorch that does nothing: what PyTorch's own
 * calls of such an allocator cost (torch_cost.py).
 *
 * Memory of a size that was freed serves the next request of the size, in any stream.
 * That is right for a program with one stream whose threads take turns, and no other.
 *
 * Owns: the pieces, up to the end of the process.   Lock: none.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define SIZES       4096u
#define PIECE_BYTES ((size_t)512)
#define ALL_BYTES   ((size_t)8 << 30)

void *floor_malloc(ssize_t bytes, int device, void *stream);
void floor_free(void *memory, ssize_t bytes, int device, void *stream);

/* The freed memory of a size. */
struct row {
    size_t bytes;
    unsigned count, room;
    void **pieces;
};

static struct row rows[SIZES];
static char *next; /* NULL: not begun */

static struct row *row_of(ssize_t asked)
{
    size_t bytes = ((size_t)asked + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
    struct row *row = &rows[bytes / PIECE_BYTES * 0x9e3779b97f4a7c15ull >> 52];
    while (row->bytes && row->bytes != bytes) {
        row = row == &rows[SIZES - 1] ? rows : row + 1;
    }
    row->bytes = bytes;
    return row;
}

void *floor_malloc(ssize_t bytes, int device, void *stream)
{
    struct row *row = row_of(bytes);
    (void)device;
    (void)stream;
    if (row->count) {
        return row->pieces[--row->count];
    }
    if (!next) {
        void *found = dlsym(RTLD_DEFAULT, "cudaMalloc");
        int (*cuda_malloc)(void **, size_t);
        memcpy(&cuda_malloc, &found, sizeof(found));
        if (!found || cuda_malloc((void **)&next, ALL_BYTES) != 0) {
            abort();
        }
    }
    next += row->bytes;
    return next - row->bytes;
}

void floor_free(void *memory, ssize_t bytes, int device, void *stream)
{
    struct row *row = row_of(bytes);
    (void)device;
    (void)stream;
    if (row->count == row->room) {
        row->room = row->room ? 2 * row->room : 64;
        row->pieces = realloc(row->pieces, row->room * sizeof(*row->pieces));
        if (!row->pieces) {
            abort();
        }
    }
    row->pieces[row->count++] = memory;
}

/*
 * referenced.c - leaks whose addresses are kept in every place that a program has, or in
 * none. Each function makes one leak; the test says for each what the report must.
 *
 * The runtime and the driver keep addresses themselves. Blocks of the pool that do not
 * begin a segment are known to the program alone, so a first block takes the segment's
 * beginning.
 *
 *   referenced            main calls exit: its frame is there when the report is written
 *   referenced return     main returns
 *   referenced room KIB   at the end no more than KIB can be mapped (RLIMIT_AS)
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launch.h"

#define BYTES 4096u

static gpu_ptr in_data, first;
static uint64_t hidden, inside;
static char *heap, *freed, *private_file, *shared_file;
static sem_t planted;

/* The address goes straight to where it is kept: no local variable has it. */
#define MAKE(where) APP_OK(gpu_malloc((gpu_ptr *)(void *)(where), BYTES))

APP_FRAME static void keep_in_data(void)
{
    MAKE(&in_data);
}

APP_FRAME static void keep_on_heap(void)
{
    MAKE(heap + 64);
}

APP_FRAME static void keep_on_stack_of_main(gpu_ptr *where)
{
    MAKE(where);
}

APP_FRAME static void keep_on_stack_of_thread(gpu_ptr *where)
{
    MAKE(where);
}

APP_FRAME static void keep_inside_only(void)
{
    MAKE(&inside);
    inside += 64;
}

APP_FRAME static void overwrite_it(void)
{
    MAKE(heap + 128);
    memset(heap + 128, 0, sizeof(gpu_ptr));
}

APP_FRAME static void hide_it(void)
{
    MAKE(&hidden);
    hidden ^= UINT64_MAX;
}

APP_FRAME static void keep_in_private_file(void)
{
    MAKE(private_file + 64);
}

APP_FRAME static void keep_in_shared_file(void)
{
    MAKE(shared_file + 8192);
}

APP_FRAME static void keep_in_freed_chunk(void)
{
    MAKE(freed + 256);
}

APP_FRAME static void keep_one_of_two(int count)
{
    for (int i = 0; i < count; i++)
        MAKE(heap + 192); /* the second takes the first one's place */
}

static void *thread_main(void *unused)
{
    volatile gpu_ptr kept = 0;

    (void)unused;
    app_gpu_thread();
    keep_on_stack_of_thread((gpu_ptr *)(uintptr_t)&kept);
    sem_post(&planted);
    for (;;)
        pause();
    return (void *)(uintptr_t)kept;
}

/* What lies below this frame is not what the calls before left there. */
APP_FRAME static void wipe_stack(void)
{
    volatile char room[65536];

    for (size_t i = 0; i < sizeof(room); i++)
        room[i] = 0;
}

static void map_files(void)
{
    char name[] = "/tmp/referenced.XXXXXX"; /* under /dev/shm it would be shared memory */
    int file = mkstemp(name);

    unlink(name);
    if (file < 0 || ftruncate(file, 65536) != 0)
        app_fail("scratch file", name);
    private_file = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    shared_file = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    app_expect(private_file != MAP_FAILED && shared_file != MAP_FAILED, "mappings");
}

/* From now on the process may map `kib` more than it has. */
static void limit_room(unsigned long kib)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    struct rlimit limit;

    app_expect(file && fscanf(file, "%lu", &pages) == 1, "/proc/self/statm");
    fclose(file);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + kib * 1024;
    app_expect(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

int main(int argc, char **argv)
{
    volatile gpu_ptr kept = 0;
    pthread_t thread;

    heap = app_host_memory(512);
    freed = app_host_memory(512);
    map_files();
    app_gpu_start();
    MAKE(&first);
    keep_in_data();
    keep_on_heap();
    keep_on_stack_of_main((gpu_ptr *)(uintptr_t)&kept);
    keep_inside_only();
    overwrite_it();
    hide_it();
    keep_in_private_file();
    keep_in_shared_file();
    keep_in_freed_chunk();
    keep_one_of_two(argc > 0 ? 2 : 1); /* no constant: the loop is one place */
    free(freed);
    sem_init(&planted, 0, 0);
    app_expect(pthread_create(&thread, NULL, thread_main, NULL) == 0, "thread");
    sem_wait(&planted);
    APP_OK(gpu_free(first));
    usleep(20000); /* until the thread waits */
    wipe_stack();
    printf("referenced: %s\n", heap && kept ? "made" : "not made");
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "return") == 0)
        return 0;
    if (argc > 2 && strcmp(argv[1], "room") == 0)
        limit_room(strtoul(argv[2], NULL, 10));
    exit(0);
}

/*
 * watch.c - runs a command and says how much memory of the GPU was in use at most.
 *
 *   gpu_watch FILE COMMAND [ARGUMENT...]
 *
 * Ends as the command does. FILE gets one JSON object:
 *   {"source":"nvml","before":BYTES,"peak":BYTES,"samples":N}
 * `before` is what was in use when the command was started, `peak` the most that was seen
 * in use while it ran, less that. Both are of the whole device, by NVML, asked every two
 * milliseconds: a shorter peak is missed, and others that use the GPU meanwhile are in
 * it. Without NVML the object is {"source":"none"}. NVML is found at run time; of its
 * library four public functions are called.
 *
 * Owns: child, written before its handlers are set.   Lock: none; one thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_NS 2000000

struct memory {
    unsigned long long total, free, used; /* nvmlMemory_t */
};

static struct {
    int (*start)(void);
    int (*by_index)(unsigned index, void **device);
    int (*by_uuid)(const char *uuid, void **device);
    int (*memory)(void *device, struct memory *out);
    void *device; /* NULL: there is nobody to ask */
} nvml;

static volatile sig_atomic_t child;

static void pass_on(int signal_number)
{
    if (child > 0)
        kill((pid_t)child, signal_number);
}

/* The device that CUDA calls 0; with several the first of CUDA_VISIBLE_DEVICES. */
static int find_device(void)
{
    const char *visible =
        getenv("CUDA_VISIBLE_DEVICES"); /* NOLINT(concurrency-mt-unsafe) */
    char uuid[96];

    if (visible && strncmp(visible, "GPU-", 4) == 0 && nvml.by_uuid) {
        snprintf(uuid, sizeof(uuid), "%.*s", (int)strcspn(visible, ","), visible);
        return nvml.by_uuid(uuid, &nvml.device);
    }
    return nvml.by_index(visible ? (unsigned)strtoul(visible, NULL, 10) : 0,
                         &nvml.device);
}

static void open_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return;
    *(void **)&nvml.start = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml.by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&nvml.by_uuid = dlsym(library, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml.memory = dlsym(library, "nvmlDeviceGetMemoryInfo");
    if (!nvml.start || !nvml.by_index || !nvml.memory || nvml.start() != 0 ||
        find_device() != 0)
        nvml.device = NULL;
}

/* Bytes in use; 0 where that cannot be said. */
static unsigned long long used_bytes(void)
{
    struct memory memory;

    return nvml.device && nvml.memory(nvml.device, &memory) == 0 ? memory.used : 0;
}

static int start_command(char **command)
{
    pid_t pid = fork();

    if (pid < 0)
        return -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(command[0], command);
        fprintf(stderr, "gpu_watch: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    child = pid;
    signal(SIGTERM, pass_on);
    signal(SIGINT, pass_on);
    return 0;
}

int main(int argc, char **argv)
{
    const struct timespec pause = {0, SAMPLE_NS};
    unsigned long long before, peak, used, samples = 0;
    int status = 0;
    pid_t ended;
    FILE *file;

    if (argc < 3) {
        fprintf(stderr, "usage: gpu_watch FILE COMMAND [ARGUMENT...]\n");
        return 2;
    }
    open_nvml();
    before = peak = used_bytes();
    if (start_command(argv + 2) != 0) {
        fprintf(stderr, "gpu_watch: no process: %s\n", strerror(errno));
        return 126;
    }
    do {
        used = used_bytes();
        samples += used > 0;
        peak = used > peak ? used : peak;
        nanosleep(&pause, NULL);
        ended = waitpid((pid_t)child, &status, WNOHANG);
    } while (ended == 0 || (ended < 0 && errno == EINTR));
    file = fopen(argv[1], "w");
    if (file && samples)
        fprintf(file,
                "{\"source\":\"nvml\",\"before\":%llu,\"peak\":%llu,\"samples\":%llu}\n",
                before, peak - before, samples);
    else if (file)
        fprintf(file, "{\"source\":\"none\"}\n");
    if (!file || fclose(file) != 0)
        fprintf(stderr, "gpu_watch: cannot write %s\n", argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

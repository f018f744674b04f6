/*
 * shim_machine_memory.c - how much memory there is, and how much of it may be taken.
 *
 * Proves that the tightest of the machine and all groups counts, in both versions of
 * control groups, in containers and outside, and that broken files harm nothing.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "shim/limits/machine_memory.h"

#define MIB ((uint64_t)1 << 20)

static void put(const char *path, const char *text)
{
    char full[512];
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", folder, path);
    for (char *slash = full + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    file = fopen(full, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void machine(void)
{
    put("/proc/meminfo", "MemTotal:       1048576 kB\nMemFree:  1 kB\n"
                         "MemAvailable:    524288 kB\n");
}

static struct gs_machine_memory read_it(void)
{
    struct gs_machine_memory memory = {0};

    errno = 77;
    cr_assert(gs_machine_memory_read(folder, &memory));
    cr_expect_eq(errno, 77, "errno is as it was");
    return memory;
}

Test(machine_memory, reads_the_machine, .init = make_folder, .fini = remove_folder)
{
    struct gs_machine_memory memory;

    machine();
    memory = read_it();
    cr_expect_eq(memory.total_bytes, 1024 * MIB);
    cr_expect_eq(memory.available_bytes, 512 * MIB);
}

Test(machine_memory, says_if_it_cannot, .init = make_folder, .fini = remove_folder)
{
    struct gs_machine_memory memory = {.total_bytes = 5};

    cr_expect(!gs_machine_memory_read(folder, &memory));
    put("/proc/meminfo", "MemTotal: 5 kB\n");
    cr_expect(!gs_machine_memory_read(folder, &memory));
    put("/proc/meminfo", "MemTotal: x kB\nMemAvailable: y\n");
    cr_expect(!gs_machine_memory_read(folder, &memory));
    cr_expect_eq(memory.total_bytes, 5, "nothing was written");
}

Test(machine_memory, heeds_a_group_and_those_above_it, .init = make_folder,
     .fini = remove_folder)
{
    struct gs_machine_memory memory;

    machine();
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "314572800\n");
    put("/sys/fs/cgroup/a/b/memory.current", "104857600\n");
    memory = read_it();
    cr_expect_eq(memory.total_bytes, 300 * MIB);
    cr_expect_eq(memory.available_bytes, 200 * MIB);
    put("/sys/fs/cgroup/a/memory.max", "209715200\n");
    put("/sys/fs/cgroup/a/memory.current", "157286400\n");
    memory = read_it();
    cr_expect_eq(memory.total_bytes, 200 * MIB, "the one above is tighter");
    cr_expect_eq(memory.available_bytes, 50 * MIB);
}

Test(machine_memory, leaves_out_what_the_kernel_takes_back, .init = make_folder,
     .fini = remove_folder)
{
    struct gs_machine_memory memory;

    machine();
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "314572800\n");
    put("/sys/fs/cgroup/memory.current", "314572800\n");
    put("/sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 104857600\nactive_file 7\n");
    memory = read_it();
    cr_expect_eq(memory.available_bytes, 100 * MIB);
    put("/sys/fs/cgroup/memory.current", "414572800\n");
    put("/sys/fs/cgroup/memory.stat", "active_file 7\n");
    memory = read_it();
    cr_expect_eq(memory.available_bytes, 0, "over the limit");
}

Test(machine_memory, takes_no_limit_for_none, .init = make_folder, .fini = remove_folder)
{
    struct gs_machine_memory memory;

    machine();
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.current", "99\n");
    memory = read_it();
    cr_expect_eq(memory.total_bytes, 1024 * MIB);
    cr_expect_eq(memory.available_bytes, 512 * MIB);
}

/* In a container the path is the host's, and what is mounted is the container's. */
Test(machine_memory, asks_the_root_of_the_mount, .init = make_folder,
     .fini = remove_folder)
{
    struct gs_machine_memory memory;

    machine();
    put("/proc/self/cgroup", "0::/docker/0123456789\n");
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    put("/sys/fs/cgroup/memory.current", "52428800\n");
    memory = read_it();
    cr_expect_eq(memory.total_bytes, 100 * MIB);
    cr_expect_eq(memory.available_bytes, 50 * MIB);
}

Test(machine_memory, reads_the_first_version, .init = make_folder, .fini = remove_folder)
{
    struct gs_machine_memory memory;

    machine();
    put("/proc/self/cgroup",
        "12:cpu,cpuacct:/x\n7:hugetlb,memory:/job\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "94371840\n");
    put("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 10485760\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "94371840\n");
    memory = read_it();
    cr_expect_eq(memory.total_bytes, 100 * MIB);
    cr_expect_eq(memory.available_bytes, 20 * MIB);
}

Test(machine_memory, survives_nonsense, .init = make_folder, .fini = remove_folder)
{
    static const char *const texts[] = {"",     ":",          "::",
                                        "0::",  "0:memory",   "a:b:c:d",
                                        "\n\n", "0::/a/../b", "0:memory:relative\n",
                                        "0::x"};

    machine();
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        put("/proc/self/cgroup", texts[i]);
        cr_expect_eq(read_it().total_bytes, 1024 * MIB, "'%s'", texts[i]);
    }
}

/* Each pinned segment and each trim asks, from many threads: the files are read once in
 * GS_MACHINE_RECENT_NS, and what the process took meanwhile counts all the same. */
Test(machine_memory, an_answer_serves_for_a_while_less_what_was_taken,
     .init = make_folder, .fini = remove_folder)
{
    struct gs_machine_memory memory = {0};
    uint64_t now = 7;

    machine();
    cr_assert(gs_machine_memory_recent(folder, now, &memory));
    cr_expect_eq(memory.available_bytes, 512 * MIB);
    put("/proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable:    102400 kB\n");
    gs_machine_memory_taken((int64_t)(100 * MIB));
    now += GS_MACHINE_RECENT_NS - 1;
    cr_assert(gs_machine_memory_recent(folder, now, &memory));
    cr_expect_eq(memory.total_bytes, 1024 * MIB);
    cr_expect_eq(memory.available_bytes, 412 * MIB);
    gs_machine_memory_taken((int64_t)(500 * MIB));
    cr_assert(gs_machine_memory_recent(folder, now, &memory));
    cr_expect_eq(memory.available_bytes, 0);
    gs_machine_memory_taken(-(int64_t)(300 * MIB));
    cr_assert(gs_machine_memory_recent(folder, now, &memory));
    cr_expect_eq(memory.available_bytes, 212 * MIB);
    cr_assert(gs_machine_memory_recent(folder, now + 1, &memory));
    cr_expect_eq(memory.available_bytes, 100 * MIB, "read again");
}

Test(machine_memory, no_answer_is_kept_that_there_was_not, .init = make_folder,
     .fini = remove_folder)
{
    struct gs_machine_memory memory = {.total_bytes = 5};

    cr_expect(!gs_machine_memory_recent(folder, 7, &memory));
    cr_expect_eq(memory.total_bytes, 5, "nothing was written");
    machine();
    cr_assert(gs_machine_memory_recent(folder, 7, &memory));
    cr_expect_eq(memory.available_bytes, 512 * MIB);
}

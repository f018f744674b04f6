/*
 * shim_platform.c - proves how kinds of systems are known, from files and variables.
 *
 * There is no driver in a unit test: what is asked of it is then the safe side.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "shim/limits/platform.h"

static void put(const char *folders, const char *file, const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), "mkdir -p '%s%s' && printf '%%s' '%s' >'%s%s/%s'",
             folder, folders, text, folder, folders, file);
    cr_assert_eq(system(command), 0);
}

TestSuite(platform, .init = make_folder, .fini = remove_folder);

Test(platform, an_ordinary_system_is_nothing_special)
{
    struct gs_platform platform;

    put("/proc/sys/kernel", "osrelease", "6.1.0-18-amd64\n");
    platform = gs_platform_read(0, folder, NULL);
    cr_assert_not(platform.wsl);
    cr_assert_not(platform.mps);
    cr_assert_not(platform.mig);
    cr_assert_not(platform.integrated);
}

Test(platform, windows_is_known_by_its_kernel)
{
    put("/proc/sys/kernel", "osrelease", "5.15.153.1-microsoft-standard-WSL2\n");
    cr_assert(gs_platform_read(0, folder, NULL).wsl);
    put("/proc/sys/kernel", "osrelease", "4.4.0-19041-Microsoft\n");
    cr_assert(gs_platform_read(0, folder, NULL).wsl);
    put("/proc/sys/kernel", "osrelease", "");
    cr_assert_not(gs_platform_read(0, folder, NULL).wsl);
}

Test(platform, a_service_is_known_by_its_pipe)
{
    char *const elsewhere[] = {"CUDA_MPS_PIPE_DIRECTORY=/run/mps", NULL};
    char *const empty[] = {"CUDA_MPS_PIPE_DIRECTORY=", NULL};

    put("/tmp/nvidia-mps", "control", "");
    cr_assert(gs_platform_read(0, folder, NULL).mps);
    cr_assert_not(gs_platform_read(0, folder, elsewhere).mps,
                  "it is the named one or none");
    cr_assert_not(gs_platform_read(0, folder, empty).mps);
    put("/run/mps", "control", "");
    cr_assert(gs_platform_read(0, folder, elsewhere).mps);
}

Test(platform, says_what_it_is)
{
    struct gs_platform all = {.integrated = true,
                              .concurrent_managed = false,
                              .wsl = true,
                              .mps = true,
                              .mig = true};
    struct gs_platform plain = {.concurrent_managed = true};
    char text[128], little[16];

    cr_assert_str_eq(
        gs_platform_text(&all, text, sizeof(text)),
        "integrated, no concurrent managed access, WSL2, MPS client, MIG slice");
    cr_assert_str_eq(gs_platform_text(&plain, text, sizeof(text)), "");
    cr_assert_str_eq(gs_platform_text(&all, little, sizeof(little)), "integrated, no ");
}

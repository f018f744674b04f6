/*
 * callers.c - call stacks: taken, kept once each, named. See oracle_callers.h.
 * Owns:  the stacks, for the process's life.   Lock: say_lock while a stack is named.
 */
#include "oracle_callers.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "oracle_state.h"
#include "tracker/names/symbolize.h"
#include "tracker/stacks/stacks.h"

#define DRIVER  "libcuda.so"
#define RUNTIME "libcudart"

static struct gs_stacks *stacks;         /* immutable after start; NULL: none are kept */
static struct gs_symbolizer *symbolizer; /* say_lock; made at the first finding */
static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "?";
}

/* Is this file part of that object, and is that the driver? Then its code is our own. */
static int find_own(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct gs_stacks_config *config = argument;
    const uintptr_t here = (uintptr_t)find_own;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD || here - start >= header->p_memsz)
            continue;
        if (strncmp(base_name(info->dlpi_name), DRIVER, strlen(DRIVER)) == 0) {
            config->own_begin = start;
            config->own_end = start + header->p_memsz;
        }
        return 1;
    }
    return 0;
}

void oracle_callers_start(void)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_AUTO, .depth = ORACLE_FRAMES};

    if (!oracle_options.stacks)
        return;
    dl_iterate_phdr(find_own, &config);
    if (gs_stacks_create(&config, &stacks) != GS_OK)
        stacks = NULL;
}

uint32_t oracle_callers_take(void)
{
    return stacks ? gs_stacks_capture(stacks) : 0;
}

static void say_frame(const struct gs_symbol_request *request, char *words, size_t room)
{
    const struct gs_symbol *symbol = &request->result;
    const char *module = symbol->module ? symbol->module : "?";

    if (symbol->function)
        snprintf(words, room, "%s (%s + 0x%llx)", symbol->function, module,
                 (unsigned long long)symbol->offset);
    else if (symbol->module)
        snprintf(words, room, "%s + 0x%llx", module, (unsigned long long)symbol->offset);
    else
        snprintf(words, room, "0x%llx", (unsigned long long)request->frame);
}

/* Needs say_lock. */
static void resolve(struct gs_symbol_request *requests, unsigned count)
{
    const struct gs_symbolizer_config config = {.lines = false};

    if (!symbolizer && gs_symbolizer_create(&config, &symbolizer) != GS_OK)
        symbolizer = NULL;
    if (symbolizer)
        gs_symbolizer_resolve(symbolizer, requests, count);
}

void oracle_callers_say(uint32_t stack, void (*say)(const char *words, void *argument),
                        void *argument)
{
    struct gs_symbol_request requests[ORACLE_FRAMES] = {{0}};
    struct gs_module modules[ORACLE_FRAMES];
    uintptr_t frames[ORACLE_FRAMES];
    char words[200];
    bool begun = false;
    unsigned count =
        stacks && stack ? gs_stacks_frames(stacks, stack, frames, ORACLE_FRAMES) : 0;

    count = count < ORACLE_FRAMES ? count : ORACLE_FRAMES;
    for (unsigned i = 0; i < count; i++) {
        requests[i].frame = frames[i];
        if (gs_stacks_module(stacks, stack, frames[i], &modules[i]) == GS_OK)
            requests[i].module = &modules[i];
    }
    pthread_mutex_lock(&say_lock);
    resolve(requests, count);
    for (unsigned i = 0; i < count; i++) {
        const char *module = requests[i].result.module;
        begun = begun || !module || strncmp(module, RUNTIME, strlen(RUNTIME)) != 0;
        if (!begun)
            continue;
        say_frame(&requests[i], words, sizeof(words));
        say(words, argument);
    }
    pthread_mutex_unlock(&say_lock);
}

/*
 * hook_rows.c - the rows of hooks.def, submit.def and harmless.def at run time.
 * Owns:  the storage of the driver's table, which real.c fills.   Lock: none.
 */
#include "shim/link/hook_rows.h"

#include "shim/link/elf_module.h"
#include "shim/link/known_functions.h"
#include "shim/link/library_hooks.h"
#include "shim/link/real.h"
#include "shim/link/wrappers.h"

/* A row of hooks.def at run time. Names and slots are offsets instead of pointers, so
 * that a program that never calls CUDA does not pay for relocating them. */
struct hook_row {
    uint16_t symbol; /* in `hook_text` */
    uint16_t slot;   /* in `table` */
    bool per_thread;
    bool gives_work; /* gs_real_gives_work */
    bool pooled;
    int since;
};

struct gs_real gs_hook_table;
static struct gs_real answers; /* atomic slots: other addresses of the functions */

#define SLOT_OF(symbol) offsetof(struct gs_real, symbol) / sizeof(void *)
static_assert(sizeof(struct gs_real) / sizeof(void *) <= UINT16_MAX, "slots fit");

static void **slot_at(size_t slot)
{
    return (void **)&gs_hook_table + slot;
}

#define STREAM_LEGACY     false
#define STREAM_PER_THREAD true

/* By the treatment: true if the driver's own function can submit GPU work. */
#define GIVES_WORK_POOLED   false
#define GIVES_WORK_TRACKED  false
#define GIVES_WORK_ANSWERED false
#define GIVES_WORK_RECORDED false
#define GIVES_WORK_CHECKED  false
#define GIVES_WORK_COUNTED  true
#define GIVES_WORK_ORDERED  true
#define GIVES_WORK_LOOKUP   true

#define IS_POOLED_POOLED   true
#define IS_POOLED_TRACKED  false
#define IS_POOLED_ANSWERED false
#define IS_POOLED_RECORDED false
#define IS_POOLED_CHECKED  false
#define IS_POOLED_COUNTED  false
#define IS_POOLED_ORDERED  true
#define IS_POOLED_LOOKUP   false

static const struct hook_text {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) char symbol[sizeof(#symbol)];
#include "shim/entries/hooks.def"
} hook_text = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) #symbol,
#include "shim/entries/hooks.def"
};

static_assert(sizeof(struct hook_text) < UINT16_MAX, "offsets fit");

static const struct hook_row hook_rows[] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc)                             \
    {offsetof(struct hook_text, symbol),                                                 \
     offsetof(struct gs_real, symbol) / sizeof(void *),                                  \
     STREAM_##stream,                                                                    \
     GIVES_WORK_##treatment,                                                             \
     IS_POOLED_##treatment,                                                              \
     since},
#include "shim/entries/hooks.def"
};

static const char *hook_symbol(const struct hook_row *row)
{
    return (const char *)&hook_text + row->symbol;
}

struct real_row {
    const char *symbol;
    bool required;
    uint16_t slot;
};

#define NEED_REQUIRED true
#define NEED_OPTIONAL false

static const struct real_row real_rows[] = {
#define GS_REAL(symbol, since, reason, need) {#symbol, NEED_##need, SLOT_OF(symbol)},
#include "shim/link/harmless.def"
};

static const char *const runtime_names[] = {
#define GS_RUNTIME(symbol, doc) #symbol,
#include "shim/entries/hooks.def"
};

static_assert(GS_ARRAY_LEN(hook_rows) == GS_API_DRIVER_END - 1, "one row a driver hook");
static_assert(GS_ARRAY_LEN(hook_rows) + GS_ARRAY_LEN(runtime_names) + 1 == GS_API_COUNT,
              "the API numbers cover both tables");

bool gs_real_is_hooked(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u') {
        return gs_library_hook_find(name) >= 0;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        if (gs_elf_same_name(hook_symbol(&hook_rows[i]), name)) {
            return true;
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(runtime_names); i++) {
        if (gs_elf_same_name(runtime_names[i], name)) {
            return true;
        }
    }
    return gs_counted_find(name) != NULL;
}

bool gs_real_gives_work(const char *symbol)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        if (gs_elf_same_name(hook_symbol(&hook_rows[i]), symbol)) {
            return hook_rows[i].gives_work;
        }
    }
    return gs_counted_find(symbol) != NULL;
}

/* ---- rows -----------------------------------------------------------------------------
 */

size_t gs_hook_count(void)
{
    return GS_ARRAY_LEN(hook_rows) + gs_counted_count;
}

struct gs_hook gs_hook_at(size_t i)
{
    if (i < GS_ARRAY_LEN(hook_rows)) {
        const struct hook_row *row = &hook_rows[i];
        return (struct gs_hook){.symbol = hook_symbol(row),
                                .name = gs_api_name((unsigned)i + 1),
                                .since = row->since,
                                .per_thread = row->per_thread,
                                .pooled = row->pooled,
                                .wrapper = gs_hook_wrappers[i],
                                .slot = slot_at(row->slot),
                                .answer = (void **)&answers + row->slot};
    }
    const struct gs_counted *row = &gs_counted[i - GS_ARRAY_LEN(hook_rows)];
    return (struct gs_hook){.symbol = gs_counted_symbol(row),
                            .name = gs_counted_name(row),
                            .since = row->since,
                            .per_thread = row->per_thread,
                            .wrapper = gs_counted_wrappers[row - gs_counted],
                            .slot = slot_at(row->slot),
                            .answer = (void **)&answers + row->slot};
}

int gs_hook_find(const char *symbol)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(hook_rows); i++) {
        if (gs_elf_same_name(hook_symbol(&hook_rows[i]), symbol)) {
            return (int)i;
        }
    }
    const struct gs_counted *row = gs_counted_find(symbol);
    return row ? (int)(GS_ARRAY_LEN(hook_rows) + (size_t)(row - gs_counted)) : -1;
}

size_t gs_entry_count(void)
{
    return gs_hook_count() + GS_ARRAY_LEN(real_rows);
}

struct gs_entry gs_entry_at(size_t i)
{
    if (i < gs_hook_count()) {
        struct gs_hook hook = gs_hook_at(i);
        return (struct gs_entry){.symbol = hook.symbol, .slot = hook.slot};
    }
    const struct real_row *row = &real_rows[i - gs_hook_count()];
    return (struct gs_entry){.symbol = row->symbol,
                             .slot = slot_at(row->slot),
                             .may_be_null = true,
                             .required = row->required};
}

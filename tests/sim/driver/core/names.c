/*
 * names.c - the functions that a name in a variable or a table stands for.
 * Owns: nothing.   Lock: none.
 */
#include "names.h"

#include <string.h>

struct symbol {
    const char *name, *base;
    bool modelled;
};

#define MODELLED   true
#define UNMODELLED false
#define GRAPHICS   false
static const struct symbol symbols[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state) {#symbol, #base, state},
#include "symbols.def"
#undef SIM_SYMBOL
};

static bool same_name(const char *known, const char *name, size_t length)
{
    return strlen(known) == length && memcmp(known, name, length) == 0;
}

bool sim_names_find(const char *name, size_t length, struct sim_named *out)
{
    bool is_base = false;

    out->count = 0;
    out->modelled = false;
    for (unsigned i = 0; i < SIM_API_COUNT; i++)
        is_base = is_base || same_name(symbols[i].base, name, length);
    for (unsigned i = 0; i < SIM_API_COUNT && out->count < SIM_NAMED_MOST; i++) {
        if (!same_name(is_base ? symbols[i].base : symbols[i].name, name, length))
            continue;
        out->apis[out->count++] = (enum sim_api)i;
        out->modelled = out->modelled || symbols[i].modelled;
    }
    return out->count > 0;
}

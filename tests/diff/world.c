/*
 * world.c - the slots of a list; addresses told by whose they are; contents that are
 * known.
 */
#include <stdarg.h>
#include <string.h>

#include "world.h"

/* ---- answers ------------------------------------------------------------------------
 */

void diff_say(struct diff_call *call, const char *format, ...)
{
    va_list list;
    int length;

    va_start(list, format);
    length = vsnprintf(call->line + call->used, DIFF_LINE - call->used, format, list);
    va_end(list);
    if (length > 0)
        call->used += (size_t)length;
    if (call->used >= DIFF_LINE)
        call->used = DIFF_LINE - 1;
}

void diff_skip(struct diff_call *call, const char *why)
{
    diff_say(call, " skip=%s", why);
}

CUresult diff_code(struct diff_call *call, const char *name, CUresult code)
{
    diff_say(call, " %s=%d", name, (int)code);
    return code;
}

/* What the driver hands out, and the device is full of. */
static const uint64_t unit = 2u << 20;

static uint64_t whole_units(uint64_t bytes)
{
    return bytes > UINT64_MAX - unit ? bytes : (bytes + unit - 1) / unit * unit;
}

/* What lives takes whole units of the device: large memory its own, the small blocks of a
 * context some together. */
static uint64_t units_in_use(const struct diff_world *world)
{
    uint64_t live = 0, small[DIFF_CONTEXTS + 1] = {0}; /* the last: of ended contexts */

    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *memory = &world->memory[i];

        if (world->slots[DIFF_PHYSICAL][i].state == DIFF_LIVE)
            live += world->slots[DIFF_PHYSICAL][i].bytes;
        if (memory->state != DIFF_LIVE)
            continue;
        /* What is mapped stays, without a handle, too. */
        if (memory->kind == 'v' &&
            (world->slots[DIFF_PHYSICAL][memory->physical].state != DIFF_LIVE ||
             world->slots[DIFF_PHYSICAL][memory->physical].value != memory->handle))
            live += memory->bytes;
        if (!strchr("dpa", memory->kind))
            continue;
        if (memory->bytes < unit)
            small[memory->ctx] += memory->bytes;
        else
            live += whole_units(memory->bytes);
    }
    for (unsigned i = 0; i <= DIFF_CONTEXTS; i++)
        live += whole_units(small[i]);
    return live;
}

void diff_say_full(struct diff_call *call, CUresult code, uint64_t wanted)
{
    if (code != CUDA_ERROR_OUT_OF_MEMORY)
        return;
    diff_say(call, " live=%llu wanted=%llu",
             (unsigned long long)units_in_use(call->world),
             (unsigned long long)(wanted < unit ? wanted : whole_units(wanted)));
    if (call->world->capturing)
        diff_say(call, " captures=%u", call->world->capturing);
}

static const struct diff_memory *memory_at(const struct diff_world *world,
                                           unsigned process, uint64_t address)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *memory = &world->memory[i];

        if (memory->state == DIFF_LIVE && memory->process == process &&
            memory->kind != 'n' && address - memory->at < memory->bytes)
            return memory;
    }
    return NULL;
}

void diff_say_where(struct diff_call *call, const char *name, uint64_t address)
{
    const struct diff_memory *memory = memory_at(call->world, call->op->process, address);

    if (memory)
        diff_say(call, " %s=m%u+%llu", name, (unsigned)(memory - call->world->memory),
                 (unsigned long long)(address - memory->at));
    else
        diff_say(call, " %s=%s", name, address ? "elsewhere" : "0");
}

/* ---- slots --------------------------------------------------------------------------
 */

static unsigned slot_number(const struct diff_call *call, unsigned argument)
{
    return (unsigned)((uint64_t)call->op->args[argument] % DIFF_SLOTS);
}

/* A graph's memory is there while the graph runs: only what becomes a node may use it. */
static bool may_be_node(const struct diff_call *call)
{
    return call->op->kind == DIFF_async_free || call->op->kind == DIFF_set_async ||
           call->op->kind == DIFF_copy_async ||
           diff_rows[call->op->kind].group == DIFF_GROUP_nodes;
}

struct diff_memory *diff_memory_of(struct diff_call *call, unsigned argument)
{
    struct diff_memory *memory = &call->world->memory[slot_number(call, argument)];

    if (memory->kind == 'n' && !may_be_node(call)) {
        diff_skip(call, "graph");
        return NULL;
    }
    if (memory->state == DIFF_LIVE && memory->process == call->op->process) {
        const struct diff_memory *source = &call->world->memory[memory->source];

        if (memory->kind != 'i' ||
            (source->state == DIFF_LIVE && source->life == memory->source_life))
            return memory;
    }
    diff_skip(call, "none");
    return NULL;
}

struct diff_slot *diff_slot_of(struct diff_call *call, enum diff_thing thing,
                               unsigned argument)
{
    struct diff_slot *slot = &call->world->slots[thing][slot_number(call, argument)];

    if (slot->state == DIFF_LIVE && slot->process == call->op->process)
        return slot;
    diff_skip(call, "none");
    return NULL;
}

struct diff_memory *diff_memory_free(struct diff_call *call, unsigned argument)
{
    struct diff_memory *memory = &call->world->memory[slot_number(call, argument)];

    if (memory->state != DIFF_LIVE)
        return memory;
    diff_skip(call, "taken");
    return NULL;
}

struct diff_slot *diff_slot_free(struct diff_call *call, enum diff_thing thing,
                                 unsigned argument)
{
    struct diff_slot *slot = &call->world->slots[thing][slot_number(call, argument)];

    if (slot->state != DIFF_LIVE)
        return slot;
    diff_skip(call, "taken");
    return NULL;
}

/* Is there memory whose free waits in a stream? When it is gone is a matter of time. */
static bool on_its_way(struct diff_call *call)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (call->world->memory[i].state == DIFF_GONE &&
            !diff_ordered(call->world, &call->world->memory[i], -1))
            return true;
    return diff_lost(call->world);
}

/* May it be a graph's, which has it again with the next launch? */
static bool in_graph(const struct diff_world *world, uint64_t address)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (world->memory[i].state != DIFF_NEVER && world->memory[i].kind == 'n' &&
            address - world->memory[i].at < world->memory[i].bytes)
            return true;
    return false;
}

struct diff_memory *diff_memory_gone(struct diff_call *call, unsigned argument)
{
    struct diff_memory *memory = &call->world->memory[slot_number(call, argument)];

    if (memory->state != DIFF_GONE || memory->process != call->op->process)
        diff_skip(call, "none");
    else if (on_its_way(call))
        diff_skip(call, "race");
    else if (call->world->stray ||
             memory_at(call->world, call->op->process, memory->at) ||
             in_graph(call->world, memory->at))
        diff_skip(call, "alias"); /* the address has another owner here */
    else
        return memory;
    return NULL;
}

/* The largest power of two the address is a multiple of, as far as it is promised. */
static unsigned alignment(char kind, uint64_t at, uint64_t bytes)
{
    unsigned promised = 9, found;

    if (kind == 'h' || kind == 'g' || kind == 'r')
        promised = 6;
    else if (kind == 'v' || (kind == 'd' && bytes >= (2u << 20)))
        promised = 21;
    found = at ? (unsigned)__builtin_ctzll(at) : 0;
    return found < promised ? found : promised;
}

void diff_memory_made(struct diff_call *call, struct diff_memory *memory, char kind,
                      uint64_t at, uint64_t bytes)
{
    const uint32_t life = memory->life + 1;

    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *other = &call->world->memory[i];

        /* A graph's memory is there while it runs. */
        if (other->state == DIFF_LIVE && other->kind != 'n' && kind != 'n' &&
            other->process == call->op->process && at < other->at + other->bytes &&
            other->at < at + bytes)
            diff_say(call, " overlaps=m%u", i);
    }
    for (unsigned i = 0; i < LINES; i++)
        if (call->world->lost[i] < memory->pending[i])
            call->world->lost[i] = memory->pending[i];
    /* A graph's nodes keep the address as long as there are graphs of them. */
    if (memory->kind == 'n' && memory->state != DIFF_NEVER)
        call->world->stray = true;
    memset(memory, 0, sizeof(*memory));
    memory->state = DIFF_LIVE;
    memory->process = call->op->process;
    memory->ctx = (uint8_t)(call->ctx < 0 ? 0 : call->ctx);
    memory->kind = kind;
    memory->life = life;
    memory->at = at;
    memory->bytes = bytes;
    diff_say(call, " align=%u", alignment(kind, at, bytes));
}

void diff_slot_made(struct diff_call *call, struct diff_slot *slot, uint64_t value)
{
    memset(slot, 0, sizeof(*slot));
    slot->state = DIFF_LIVE;
    slot->process = call->op->process;
    slot->ctx = (uint8_t)(call->ctx < 0 ? 0 : call->ctx);
    slot->value = value;
}

static bool outlives_context(char kind)
{
    return kind == 'a' || kind == 'v' || kind == 'n';
}

void diff_context_gone(struct diff_world *world, unsigned ctx)
{
    static const enum diff_thing owned[] = {DIFF_STREAM, DIFF_EVENT, DIFF_ARRAY,
                                            DIFF_EXEC};

    diff_host_waited_context(world, ctx);
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        struct diff_memory *memory = &world->memory[i];

        if (memory->state == DIFF_LIVE && memory->ctx == ctx) {
            if (!outlives_context(memory->kind))
                memory->state = DIFF_GONE;
            memory->ctx = DIFF_CONTEXTS; /* nobody's: another may take the slot */
        }
        for (unsigned j = 0; j < sizeof(owned) / sizeof(*owned); j++)
            if (world->slots[owned[j]][i].ctx == ctx)
                world->slots[owned[j]][i].state = DIFF_GONE;
    }
}

/* ---- streams and contexts -----------------------------------------------------------
 */

int diff_context_slot(struct diff_world *world, unsigned process, CUcontext context)
{
    for (unsigned i = 0; i < DIFF_CONTEXTS; i++) {
        const struct diff_slot *slot = &world->slots[DIFF_CTX][i];

        if (slot->state == DIFF_LIVE && slot->process == process &&
            slot->value == (uint64_t)(uintptr_t)context)
            return (int)i;
    }
    return -1;
}

void diff_find_context(struct diff_call *call)
{
    unsigned long long id;
    CUcontext context = NULL;

    call->ctx = CU(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context
                    ? diff_context_slot(call->world, call->op->process, context)
                    : -1;
    /* A context that has ended stays current; a new one may have its handle. */
    if (call->world->ends && call->ctx >= 0 && CU(cuCtxGetId)(NULL, &id) != CUDA_SUCCESS)
        call->ctx = -1;
}

static int legacy_line(const struct diff_call *call)
{
    return call->ctx < 0 ? -1 : LINE_LEGACY + call->ctx;
}

static int thread_line(const struct diff_call *call)
{
    return call->ctx < 0 ? -1 : LINE_THREAD + call->ctx * DIFF_THREADS + call->op->thread;
}

int diff_default_line(const struct diff_call *call)
{
    return call->list->way == DIFF_WAY_PER_THREAD ? thread_line(call) : legacy_line(call);
}

bool diff_stream_of(struct diff_call *call, unsigned argument, CUstream *stream,
                    int *line)
{
    unsigned number = (unsigned)((uint64_t)call->op->args[argument] % DIFF_STREAMS);
    struct diff_slot *slot = &call->world->slots[DIFF_STREAM][number];

    if (number > 2) {
        if (slot->state != DIFF_LIVE || slot->process != call->op->process) {
            diff_skip(call, "none");
            return false;
        }
        *stream = (CUstream)(uintptr_t)slot->value;
        *line = (int)number;
        return true;
    }
    *stream = number == 0 ? NULL : number == 1 ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    *line = number == 0   ? diff_default_line(call)
            : number == 1 ? legacy_line(call)
                          : thread_line(call);
    return true;
}

bool diff_captures(struct diff_call *call, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return call->world->captures &&
           CU(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* ---- contents -----------------------------------------------------------------------
 */

enum { MOST = 65536, SOME = 4096, FEW = 16 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct diff_part diff_part_of(const struct diff_memory *memory, int64_t code)
{
    const uint64_t bytes = memory->bytes;

    switch (code % 6) {
    case 0:
        return (struct diff_part){0, least(bytes, MOST)};
    case 1:
        return (struct diff_part){0, least(bytes, FEW)};
    case 2:
        return (struct diff_part){bytes - least(bytes, FEW), least(bytes, FEW)};
    case 3:
        return (struct diff_part){bytes / 8 * 4, least(bytes / 4, SOME)};
    case 4:
        return (struct diff_part){bytes - least(bytes, SOME), least(bytes, SOME)};
    default:
        return (struct diff_part){0, 0};
    }
}

void diff_undefine(struct diff_memory *memory, struct diff_part part)
{
    const uint64_t from = part.at, to = part.at + part.bytes;
    unsigned kept = 0;
    uint64_t starts[2 * SPANS], ends[2 * SPANS];

    for (unsigned i = 0; i < memory->spans; i++) {
        if (memory->from[i] < least(memory->to[i], from)) {
            starts[kept] = memory->from[i];
            ends[kept++] = least(memory->to[i], from);
        }
        if (memory->to[i] > to && memory->to[i] > memory->from[i]) {
            starts[kept] = memory->from[i] > to ? memory->from[i] : to;
            ends[kept++] = memory->to[i];
        }
    }
    memory->spans = kept < SPANS ? kept : SPANS;
    memcpy(memory->from, starts, memory->spans * sizeof(*starts));
    memcpy(memory->to, ends, memory->spans * sizeof(*ends));
}

void diff_define(struct diff_memory *memory, struct diff_part part)
{
    if (part.bytes == 0)
        return;
    diff_undefine(memory, part);
    /* The oldest is forgotten where there is no room. */
    if (memory->spans == SPANS) {
        memmove(memory->from, memory->from + 1, (SPANS - 1) * sizeof(*memory->from));
        memmove(memory->to, memory->to + 1, (SPANS - 1) * sizeof(*memory->to));
        memory->spans--;
    }
    memory->from[memory->spans] = part.at;
    memory->to[memory->spans++] = part.at + part.bytes;
}

bool diff_defined(const struct diff_memory *memory, struct diff_part part)
{
    struct diff_memory rest = {
        .spans = 1, .from = {part.at}, .to = {part.at + part.bytes}};

    for (unsigned i = 0; i < memory->spans; i++)
        diff_undefine(
            &rest, (struct diff_part){memory->from[i], memory->to[i] - memory->from[i]});
    return part.bytes == 0 || rest.spans == 0;
}

uint64_t diff_hash(const struct diff_memory *memory, struct diff_part part,
                   const unsigned char *bytes)
{
    const uint64_t end = part.at + part.bytes;
    uint64_t hash = 14695981039346656037u;

    for (unsigned i = 0; i < memory->spans; i++) {
        uint64_t from = memory->from[i] > part.at ? memory->from[i] : part.at;

        for (; from < least(memory->to[i], end); from++)
            hash = (hash ^ bytes[from - part.at]) * 1099511628211u;
    }
    return hash;
}

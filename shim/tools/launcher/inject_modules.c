/*
 * inject_modules.c - memory, mappings, modules and symbols of another process, from
 * /proc/PID/mem and /proc/PID/maps alone: its files may be deleted, or of another
 * namespace.
 *
 * Owns: what gs_target_read allocates.   Lock: none.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_grow.h"
#include "shim/tools/launcher/inject_parts.h"
#include "shim/tools/reader/living_thread.h"

#define MOST_HEADERS  64
#define LONGEST_NAME  64
#define LONGEST_CHAIN 100000u
/* ThreadSanitizer's memory for what it knows of objects (tsan_platform.h, x86_64). */
#define TSAN_BEGIN UINT64_C(0x300000000000)
#define TSAN_END   UINT64_C(0x340000000000)

bool gs_target_get(const struct gs_target *target, uint64_t from, void *to, size_t bytes)
{
    return pread(target->memory, to, bytes, (off_t)from) == (ssize_t)bytes;
}

bool gs_target_put(const struct gs_target *target, uint64_t to, const void *from,
                   size_t bytes)
{
    return pwrite(target->memory, from, bytes, (off_t)to) == (ssize_t)bytes;
}

const struct gs_map *gs_target_map(const struct gs_target *target, uint64_t address)
{
    size_t low = 0, high = target->maps_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (target->maps[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < target->maps_count && target->maps[low].start <= address
               ? &target->maps[low]
               : NULL;
}

const struct gs_module *gs_target_module(const struct gs_target *target, uint64_t address)
{
    for (size_t i = 0; i < target->modules_count; i++) {
        if (address >= target->modules[i].base && address < target->modules[i].end) {
            return &target->modules[i];
        }
    }
    return NULL;
}

/* ---- symbols ----------------------------------------------------------------------- */

static bool name_is(const struct gs_target *target, uint64_t at, const char *name)
{
    char found[LONGEST_NAME];
    size_t bytes = strlen(name) + 1;
    return bytes <= sizeof(found) && gs_target_get(target, at, found, bytes) &&
           memcmp(found, name, bytes) == 0;
}

/* The address of the symbol with an index, if it is defined and has this name; 0: it is
 * not. */
static uint64_t symbol_at(const struct gs_target *target, const struct gs_module *module,
                          uint32_t index, const char *name)
{
    Elf64_Sym symbol;
    if (!gs_target_get(target, module->symbols + index * sizeof(symbol), &symbol,
                       sizeof(symbol)) ||
        symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) {
        return 0;
    }
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT) &&
                   name_is(target, module->strings + symbol.st_name, name)
               ? module->bias + symbol.st_value
               : 0;
}

static uint64_t find_gnu(const struct gs_target *target, const struct gs_module *module,
                         const char *name)
{
    uint32_t head[4], hash = 5381, index, found;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = hash * 33 + *c;
    }
    if (!gs_target_get(target, module->gnu_hash, head, sizeof(head)) || head[0] == 0) {
        return 0;
    }
    uint64_t buckets = module->gnu_hash + sizeof(head) + UINT64_C(8) * head[2];
    uint64_t chain = buckets + UINT64_C(4) * head[0];
    if (!gs_target_get(target, buckets + UINT64_C(4) * (hash % head[0]), &index,
                       sizeof(index)) ||
        index < head[1]) {
        return 0;
    }
    for (uint32_t turns = 0; turns < LONGEST_CHAIN; turns++, index++) {
        if (!gs_target_get(target, chain + UINT64_C(4) * (index - head[1]), &found,
                           sizeof(found))) {
            return 0;
        }
        uint64_t address =
            (found | 1) == (hash | 1) ? symbol_at(target, module, index, name) : 0;
        if (address || (found & 1)) {
            return address;
        }
    }
    return 0;
}

static uint64_t find_sysv(const struct gs_target *target, const struct gs_module *module,
                          const char *name)
{
    uint32_t head[2], hash = 0, index;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    if (!gs_target_get(target, module->hash, head, sizeof(head)) || head[0] == 0) {
        return 0;
    }
    uint64_t at = module->hash + 8 + UINT64_C(4) * (hash % head[0]);
    for (uint32_t turns = 0; turns < LONGEST_CHAIN; turns++) {
        if (!gs_target_get(target, at, &index, sizeof(index)) || index == 0 ||
            index >= head[1]) {
            return 0;
        }
        uint64_t address = symbol_at(target, module, index, name);
        if (address) {
            return address;
        }
        at = module->hash + 8 + UINT64_C(4) * (head[0] + (uint64_t)index);
    }
    return 0;
}

/* The address of a function or variable that a module defines; 0: it defines none. */
static uint64_t find_symbol(const struct gs_target *target,
                            const struct gs_module *module, const char *name)
{
    if (!module->symbols || !module->strings) {
        return 0;
    }
    if (module->gnu_hash) {
        return find_gnu(target, module, name);
    }
    return module->hash ? find_sysv(target, module, name) : 0;
}

/* ---- modules ----------------------------------------------------------------------- */

/* Reads what a module's dynamic section says. */
static void read_dynamic(const struct gs_target *target, struct gs_module *module)
{
    Elf64_Dyn entry;
    uint64_t name = 0;
    for (uint64_t at = module->dynamic;
         gs_target_get(target, at, &entry, sizeof(entry)) && entry.d_tag != DT_NULL;
         at += sizeof(entry)) {
        /* The loader has added where the module is, but not everywhere. */
        uint64_t address = entry.d_un.d_ptr;
        address += address < module->bias ? module->bias : 0;
        switch (entry.d_tag) {
        case DT_SYMTAB:
            module->symbols = address;
            break;
        case DT_STRTAB:
            module->strings = address;
            break;
        case DT_GNU_HASH:
            module->gnu_hash = address;
            break;
        case DT_HASH:
            module->hash = address;
            break;
        case DT_SONAME:
            name = entry.d_un.d_val;
            break;
        default:
            break;
        }
    }
    module->soname = name && module->strings ? module->strings + name : 0;
}

static void set_kind(const struct gs_target *target, struct gs_module *module)
{
    static const char *const own[] = {"libc.so.6", "libpthread.so.0", "ld-linux",
                                      "libdl.so.2", "ld64.so"};
    char name[LONGEST_NAME] = "";
    if (module->soname) {
        /* A name at the end of the strings may be shorter. */
        for (size_t i = 0; i + 1 < sizeof(name); i++) {
            if (!gs_target_get(target, module->soname + i, name + i, 1) || !name[i]) {
                name[i] = '\0';
                break;
            }
        }
    }
    module->kind = GS_MODULE_OTHER;
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++) {
        if (strncmp(name, own[i], strlen(own[i])) == 0) {
            module->kind = GS_MODULE_LIBC;
            return;
        }
    }
    if (strncmp(name, "libcuda.so", strlen("libcuda.so")) == 0) {
        module->kind = GS_MODULE_DRIVER;
    } else if (find_symbol(target, module, "malloc")) {
        module->kind = module->is_program ? GS_MODULE_PROGRAM : GS_MODULE_MALLOC;
    }
}

/* Adds the module that begins at an address, if one does. Returns false without memory.
 */
static bool add_module(struct gs_target *target, uint64_t base)
{
    Elf64_Ehdr head;
    Elf64_Phdr headers[MOST_HEADERS];
    if (!gs_target_get(target, base, &head, sizeof(head)) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(headers[0]) ||
        head.e_phnum > MOST_HEADERS ||
        !gs_target_get(target, base + head.e_phoff, headers,
                       head.e_phnum * sizeof(headers[0]))) {
        return true;
    }
    struct gs_module module = {.base = base};
    uint64_t first = UINT64_MAX, end = 0;
    for (int i = 0; i < head.e_phnum; i++) {
        if (headers[i].p_type == PT_LOAD) {
            uint64_t last = headers[i].p_vaddr + headers[i].p_memsz;
            first = headers[i].p_vaddr < first ? headers[i].p_vaddr : first;
            end = last > end ? last : end;
        } else if (headers[i].p_type == PT_DYNAMIC) {
            module.dynamic = headers[i].p_vaddr;
        } else if (headers[i].p_type == PT_INTERP) {
            module.is_program = true;
        }
    }
    if (!module.dynamic || first == UINT64_MAX) {
        return true;
    }
    module.bias = base - (first & ~UINT64_C(4095));
    module.dynamic += module.bias;
    module.end = gs_round_up(module.bias + end, 4096);
    read_dynamic(target, &module);
    set_kind(target, &module);
    if (!gs_grow(&target->modules, target->modules_count, &target->modules_room,
                 sizeof(module))) {
        return false;
    }
    target->modules[target->modules_count++] = module;
    return true;
}

/* ---- the target -------------------------------------------------------------------- */

/* Reads a line of maps. Returns whether a file's begin is mapped. */
static bool read_map(char *line, struct gs_map *out)
{
    char *end, *rest;
    *out = (struct gs_map){.start = strtoull(line, &end, 16)};
    out->end = *end == '-' ? strtoull(end + 1, &end, 16) : out->start;
    rest = end + strspn(end, " ");
    bool is_readable = rest[0] == 'r';
    out->is_executable = strlen(rest) > 4 && rest[2] == 'x';
    out->is_stack = strstr(rest, "[stack]") != NULL;
    out->is_vdso = strstr(rest, "[vdso]") != NULL || strstr(rest, "[vsyscall]") != NULL;
    rest += strcspn(rest, " ");
    return is_readable && strtoull(rest, NULL, 16) == 0 && strchr(rest, '/') != NULL;
}

/* Marks the modules of a list of the loader's. Returns whether the C library is among
 * them. */
static bool mark_listed(struct gs_target *target, uint64_t at)
{
    struct link_map item;
    bool has_libc = false;
    for (unsigned turns = 0;
         turns < LONGEST_CHAIN && at && gs_target_get(target, at, &item, sizeof(item));
         turns++, at = (uint64_t)(uintptr_t)item.l_next) {
        for (size_t i = 0; i < target->modules_count; i++) {
            struct gs_module *module = &target->modules[i];
            if (module->dynamic == (uint64_t)(uintptr_t)item.l_ld) {
                module->is_listed = true;
                has_libc |= module->kind == GS_MODULE_LIBC;
            }
        }
    }
    return has_libc;
}

/* Marks the modules that the loader has loaded for the program. Others are files that the
 * program only reads, or of another namespace (dlmopen): the locks and the memory of a C
 * library there are not the program's. Returns whether the C library is marked. */
static bool find_listed(struct gs_target *target)
{
    struct r_debug list;
    bool has_libc = false;
    for (size_t i = 0; i < target->modules_count && !has_libc; i++) {
        uint64_t at = target->modules[i].kind == GS_MODULE_LIBC
                          ? find_symbol(target, &target->modules[i], "_r_debug")
                          : 0;
        has_libc = at && gs_target_get(target, at, &list, sizeof(list)) &&
                   mark_listed(target, (uint64_t)(uintptr_t)list.r_map);
    }
    return has_libc;
}

static const char *read_maps(struct gs_target *target)
{
    char path[48];
    char *line = NULL;
    size_t room = 0;
    const char *why = NULL;
    (void)snprintf(path, sizeof(path), "/proc/%d/maps",
                   (int)gs_living_thread(target->pid));
    FILE *file = fopen(path, "re");
    if (!file) {
        return "it has ended";
    }
    while (!why && getline(&line, &room, file) > 0) {
        struct gs_map map;
        bool is_file = read_map(line, &map);
        if (!gs_grow(&target->maps, target->maps_count, &target->maps_room,
                     sizeof(map))) {
            why = "out of memory";
            break;
        }
        target->maps[target->maps_count++] = map;
        if (is_file && !add_module(target, map.start)) {
            why = "out of memory";
        }
    }
    free(line);
    (void)fclose(file);
    return why;
}

static void find_functions(struct gs_target *target)
{
    struct gs_functions *functions = &target->functions;
    uint64_t inner_open = 0, inner_symbol = 0;
    const struct {
        const char *name;
        uint64_t *where;
    } rows[] = {{"pthread_create", &functions->create},
                {"pthread_detach", &functions->detach},
                {"pthread_self", &functions->self},
                {"dlopen", &functions->open},
                {"dlsym", &functions->symbol},
                {"dlerror", &functions->error},
                {"munmap", &functions->unmap},
                {"__libc_dlopen_mode", &inner_open},
                {"pthread_attr_init", &functions->attribute},
                {"pthread_attr_setstacksize", &functions->size_stack},
                {"__libc_dlsym", &inner_symbol}};
    for (size_t i = 0; i < target->modules_count; i++) {
        const struct gs_module *module = &target->modules[i];
        for (size_t row = 0; module->kind == GS_MODULE_LIBC && module->is_listed &&
                             row < GS_ARRAY_LEN(rows);
             row++) {
            if (!*rows[row].where) {
                *rows[row].where = find_symbol(target, module, rows[row].name);
            }
        }
    }
    functions->mode = RTLD_NOW;
    if (!functions->open && inner_open) {         /* before glibc 2.34, without libdl */
        functions->mode = RTLD_NOW | 0x80000000u; /* __RTLD_DLOPEN */
        functions->open = inner_open;
        functions->symbol = inner_symbol;
        functions->error = 0;
    }
}

/* Finds the instructions that gs_arch_find_code wants in the C library. */
static bool find_code(struct gs_target *target)
{
    bool found = false;
    for (size_t i = 0; i < target->maps_count && !found; i++) {
        const struct gs_map *map = &target->maps[i];
        const struct gs_module *module = gs_target_module(target, map->start);
        if (!map->is_executable || !module || module->kind != GS_MODULE_LIBC) {
            continue;
        }
        size_t bytes = map->end - map->start;
        unsigned char *code = malloc(bytes);
        found = code && gs_target_get(target, map->start, code, bytes) &&
                gs_arch_find_code(target, map->start, code, bytes);
        free(code);
    }
    return found;
}

/* Whether each thread must be made by ThreadSanitizer: in another it ends the process.
 * Linked statically it may show no name, only memory at a fixed address. MemorySanitizer
 * has some there, too, which is larger. */
static bool has_thread_sanitizer(const struct gs_target *target)
{
    for (size_t i = 0; i < target->maps_count; i++) {
        if (target->maps[i].start == TSAN_BEGIN && target->maps[i].end == TSAN_END) {
            return true;
        }
    }
    for (size_t i = 0; i < target->modules_count; i++) {
        if (target->modules[i].is_listed &&
            find_symbol(target, &target->modules[i], "__tsan_init")) {
            return true;
        }
    }
    return false;
}

const char *gs_target_read(struct gs_target *target)
{
    target->maps_count = target->modules_count = 0;
    const char *why = read_maps(target);
    if (!why && target->maps_count == 0) {
        why = read_maps(target); /* the thread that it was read of may have ended */
    }
    if (why || target->read_ns) {
        target->read_ns = gs_now_ns();
        return !why && target->maps_count == 0 ? "it has ended" : why;
    }
    bool has_libc = find_listed(target), has_loader = false;
    for (size_t i = 0; i < target->modules_count; i++) {
        has_loader |= target->modules[i].is_program;
    }
    target->lacks_libraries = true; /* until it is shown to have them */
    if (target->maps_count == 0) {
        return "it has no memory of its own: a kernel thread, or it has ended";
    }
    if (!has_libc) {
        return has_loader ? "its C library is not glibc"
                          : "it is linked statically: no library can be loaded";
    }
    find_functions(target);
    const struct gs_functions *functions = &target->functions;
    if (!functions->create || !functions->detach || !functions->self) {
        return "it has no threads library loaded";
    }
    if (!functions->open || !functions->symbol || !functions->unmap) {
        return "it has no dlopen";
    }
    if (!find_code(target)) {
        return "its C library has no code to make system calls with";
    }
    target->lacks_libraries = false;
    if (has_thread_sanitizer(target)) {
        return "it runs under ThreadSanitizer, which would not know the new thread";
    }
    target->read_ns = gs_now_ns();
    return NULL;
}

void gs_target_end(struct gs_target *target)
{
    free(target->maps);
    free(target->modules);
    if (target->memory >= 0) {
        (void)close(target->memory);
    }
}

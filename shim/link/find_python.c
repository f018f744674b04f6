/*
 * find_python.c - finds the Python interpreter: in the program itself, or in a shared
 * library.
 *
 * Owns:  the list of modules as of the last vain search.
 * Lock:  the linker's, during the search.   Design: docs/python.md
 *
 * The result is used until the process ends, so a library that the program could close is
 * kept loaded. Programs that finalize their interpreter do not close it either: no Python
 * object survives a finalization.
 */
#include "shim/link/find_python.h"

#include <string.h>
#include <sys/auxv.h>

#include "shim/link/elf_module.h"
#include "shim/link/linker.h"

#define THREAD_STATE "PyGILState_GetThisThreadState"

/* PY_VERSION_HEX of a release's version text ("3.10.13 (main, ..."); else 0. */
static unsigned version_of(const char *text)
{
    unsigned part[3] = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(part); i++) {
        if (*text < '0' || *text > '9') {
            return 0;
        }
        for (; *text >= '0' && *text <= '9'; text++) {
            part[i] = part[i] * 10 + (unsigned)(*text - '0');
        }
        if (i < 2 && *text++ != '.') {
            return 0;
        }
    }
    if (*text != ' ' && *text != '+') { /* 3.13.0rc1 */
        return 0;
    }
    return part[0] << 24 | part[1] << 16 | part[2] << 8 | 0xf0;
}

/* The interpreter's version: a constant since 3.11; before, a function that may be called
 * at any time. */
static unsigned find_version(const struct gs_module_ref *module)
{
    const unsigned long *constant = gs_elf_symbol(module, "Py_Version");
    if (constant) {
        return (unsigned)*constant;
    }
    void *function = gs_elf_symbol(module, "Py_GetVersion");
    const char *(*get_version)(void);
    memcpy(&get_version, &function, sizeof(get_version));
    return get_version ? version_of(get_version()) : 0;
}

static void find_programs(const struct gs_module_ref *module,
                          struct gs_python_symbols *out)
{
    static const char *const names[GS_PYTHON_PROGRAMS] = {"Py_BytesMain", "Py_RunMain",
                                                          "Py_Main"};
    for (size_t i = 0; i < GS_PYTHON_PROGRAMS; i++) {
        gs_elf_function(module, names[i], &out->programs[i].begin, &out->programs[i].end);
    }
}

static bool find_symbols(const struct gs_module_ref *module,
                         struct gs_python_symbols *out)
{
    void *thread_state = gs_elf_symbol(module, THREAD_STATE);
    void *interpreters = gs_elf_symbol(module, "PyInterpreterState_Head");
    out->runtime = gs_elf_symbol(module, "_PyRuntime");
    out->code_type = gs_elf_symbol(module, "PyCode_Type");
    if (!thread_state || !out->runtime || !out->code_type) {
        return false;
    }
    memcpy(&out->thread_state, &thread_state, sizeof(out->thread_state));
    memcpy(&out->interpreters, &interpreters, sizeof(out->interpreters));
    out->version = find_version(module);
    out->free_threaded = gs_elf_symbol(module, "_Py_MergeZeroLocalRefcount") != NULL;
    gs_elf_function(module, "_PyEval_EvalFrameDefault", &out->evaluation.begin,
                    &out->evaluation.end);
    find_programs(module, out);
    return true;
}

/* Finds an interpreter that is linked into the program. The program's own code may
 * surround it, so the interpreter's functions give its range. */
static bool find_in_program(struct gs_python_symbols *out)
{
    static const char *const prefixes[] = {"Py", "_Py", NULL};
    const void *headers = (const void *)getauxval(AT_PHDR);
    struct gs_module_ref module;
    if (gs_elf_module_of(headers, &module) != GS_OK || !find_symbols(&module, out)) {
        return false;
    }
    gs_elf_functions_span(&module, prefixes, &out->code.begin, &out->code.end);
    return true;
}

/* Ends at an interpreter's library. libpython3.so, in the same folder, has no code. */
static bool is_library(const struct dl_phdr_info *info, bool all, void *found)
{
    static const char *const sonames[] = {"libpython3.1", "libpython3.8", "libpython3.9"};
    struct gs_module_ref module = gs_elf_module_in(info);
    const char *soname = module.dynamic ? gs_elf_soname(&module) : NULL;
    (void)all;
    for (size_t i = 0; soname && i < GS_ARRAY_LEN(sonames); i++) {
        if (gs_elf_begins_with(soname, sonames[i])) {
            *(struct gs_module_ref *)found = module;
            return true;
        }
    }
    return false;
}

/* Reads the modules loaded since the last search that found nothing. Of threads that
 * search at once, all but one read all modules. */
static bool find_library(struct gs_module_ref *out)
{
    static struct gs_loaded seen; /* by the thread that has set `reading` */
    static bool reading;          /* atomic */
    struct gs_loaded nothing = {0};
    if (__atomic_exchange_n(&reading, true, __ATOMIC_ACQ_REL)) {
        return gs_elf_visit_new(&nothing, is_library, out);
    }
    bool found = gs_elf_visit_new(&seen, is_library, out);
    __atomic_store_n(&reading, false, __ATOMIC_RELEASE);
    return found;
}

bool gs_python_find(struct gs_python_symbols *out)
{
    struct gs_module_ref module;
    if (find_in_program(out)) {
        return true;
    }
    if (!find_library(&module) || !find_symbols(&module, out)) {
        return false;
    }
    out->code = (struct gs_code_range){module.begin, module.end};
    return gs_linker_keep(out->runtime); /* it may be unloaded already */
}

bool gs_python_present(void)
{
    static const char *const sonames[] = {"libpython", "libpypy"};
    const void *headers = (const void *)getauxval(AT_PHDR);
    struct gs_module_ref module;
    if (gs_elf_module_of(headers, &module) == GS_OK &&
        gs_elf_symbol(&module, "Py_Initialize")) {
        return true;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(sonames); i++) {
        if (gs_elf_module_named(sonames[i], true, &module) == GS_OK) {
            return true;
        }
    }
    return false;
}

/*
 * sim_surface.c - proves how much of the driver is there: all that sim_coverage.def asks
 * for is modelled, by the table and by what a call says; all that is not modelled refuses
 * with the documented code and a line that names the function.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim_helpers.h"

enum state { MODELLED, UNMODELLED, GRAPHICS = UNMODELLED };

struct row {
    const char *symbol;
    enum state state;
};

static const struct row rows[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state) {#symbol, state},
#include "../driver/symbols.def"
#undef SIM_SYMBOL
};

enum rule { COVERED, FAMILY, NOT_COVERED };

static const struct {
    const char *name;
    enum rule rule;
} rules[] = {
#define SIM_COVERED(symbol)        {#symbol, COVERED},
#define SIM_COVERED_FAMILY(prefix) {#prefix, FAMILY},
#define SIM_NOT_COVERED(symbol)    {#symbol, NOT_COVERED},
#include "sim_coverage.def"
#undef SIM_COVERED
#undef SIM_COVERED_FAMILY
#undef SIM_NOT_COVERED
};

/* Any function, called with more zeros than it has arguments. */
typedef CUresult (*any_function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t,
                                 size_t, size_t, size_t, size_t, size_t);

/* Standard error of one call, and what it answered. */
struct answer {
    CUresult code;
    char text[4096];
};

static const struct row *find(const char *symbol)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            return &rows[i];
    }
    return NULL;
}

static bool is_excepted(const char *symbol)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
        if (rules[i].rule == NOT_COVERED && strcmp(rules[i].name, symbol) == 0)
            return true;
    }
    return false;
}

static bool is_covered(const char *symbol)
{
    if (is_excepted(symbol))
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
        const char *name = rules[i].name;
        if (rules[i].rule == COVERED && strcmp(name, symbol) == 0)
            return true;
        if (rules[i].rule == FAMILY && strncmp(symbol, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* Read what was written to standard error since the last time. */
static void drain(int fd, char *text, size_t room)
{
    ssize_t used;

    cr_assert_geq(lseek(fd, 0, SEEK_SET), 0);
    used = read(fd, text, room - 1);
    cr_assert_geq(used, 0);
    text[used] = 0;
    cr_assert_eq(ftruncate(fd, 0), 0);
    cr_assert_geq(lseek(fd, 0, SEEK_SET), 0);
}

/* Call with zeros, by name, with standard error in a file. */
static struct answer call_with_zeros(const char *symbol, int log)
{
    any_function call =
        (any_function)dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), symbol);
    struct answer answer;
    int kept = dup(STDERR_FILENO);

    cr_assert_not_null(call, "%s is not exported", symbol);
    cr_assert_geq(kept, 0);
    cr_assert_eq(dup2(log, STDERR_FILENO), STDERR_FILENO);
    answer.code = call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    cr_assert_eq(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    close(kept);
    drain(log, answer.text, sizeof(answer.text));
    return answer;
}

static int log_file(void)
{
    char path[] = "/tmp/sim_surface_XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    unlink(path);
    return fd;
}

static CUcontext start(void)
{
    setenv("CUDASIM_LOG", "1", 1);
    return sim_test_start("1", "16M");
}

/* The list names what exists, and no exception that is none. */
Test(sim_surface, the_list_is_one_of_real_symbols)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
        const struct row *row = find(rules[i].name);
        if (rules[i].rule == FAMILY)
            continue;
        cr_assert_not_null(row, "%s is no symbol", rules[i].name);
        if (rules[i].rule == NOT_COVERED)
            cr_assert_eq(row->state, UNMODELLED, "%s is modelled: no exception",
                         rules[i].name);
    }
}

Test(sim_surface, what_has_to_be_covered_is_modelled)
{
    size_t covered = 0, missing = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (!is_covered(rows[i].symbol))
            continue;
        covered++;
        if (rows[i].state != MODELLED) {
            fprintf(stderr, "%s is not modelled\n", rows[i].symbol);
            missing++;
        }
    }
    cr_assert_gt(covered, 300); /* the families are not empty */
    cr_assert_eq(missing, 0, "%zu of %zu are not modelled", missing, covered);
}

/* The table might say what is not so: the functions themselves are asked. */
Test(sim_surface, what_has_to_be_covered_does_not_refuse)
{
    CUcontext context = start();
    int log = log_file();

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (!is_covered(rows[i].symbol))
            continue;
        struct answer answer = call_with_zeros(rows[i].symbol, log);
        cr_assert_null(strstr(answer.text, "is not modelled"), "%s: %s", rows[i].symbol,
                       answer.text);
        ok(cuCtxSetCurrent(context)); /* some of them end it */
    }
}

Test(sim_surface, what_is_not_modelled_refuses_by_name)
{
    int log = log_file();

    start();
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        char want[256];
        if (rows[i].state != UNMODELLED)
            continue;
        struct answer answer = call_with_zeros(rows[i].symbol, log);
        cr_assert_eq(answer.code, CUDA_ERROR_NOT_SUPPORTED, "%s", rows[i].symbol);
        snprintf(want, sizeof(want),
                 "cudasim: %s is not modelled: CUDA_ERROR_NOT_SUPPORTED\n",
                 rows[i].symbol);
        cr_assert_str_eq(answer.text, want);
    }
}

/* Without CUDASIM_LOG the refusal is silent. */
Test(sim_surface, a_refusal_is_silent_unless_asked)
{
    int log = log_file();

    sim_test_start("1", "16M");
    struct answer answer = call_with_zeros("cuTexRefCreate", log);
    cr_assert_eq(answer.code, CUDA_ERROR_NOT_SUPPORTED);
    cr_assert_str_empty(answer.text);
}

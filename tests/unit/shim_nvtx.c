/*
 * shim_nvtx.c - proves that nvtx.h is NVTX's interface as NVIDIA's headers have it, and
 * that tables of any length are filled as far as they go. What a program sees:
 * tests/e2e/cases/nvtx.sh.
 */
#include <criterion/criterion.h>
#include <stddef.h>

#include "shim/api/nvtx.h"
#include "shim/settings/thread.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(GS_NVTX_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(GS_NVTX_CORE, NVTX_CB_MODULE_CORE);
SAME(GS_NVTX_CORE2, NVTX_CB_MODULE_CORE2);
SAME(GS_NVTX_RANGE_PUSH_EX, NVTX_CBID_CORE_RangePushEx);
SAME(GS_NVTX_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
SAME(GS_NVTX_RANGE_PUSH_W, NVTX_CBID_CORE_RangePushW);
SAME(GS_NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME(GS_NVTX_DOMAIN_RANGE_PUSH_EX, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(GS_NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(GS_NVTX_DOMAIN_REGISTER_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(GS_NVTX_DOMAIN_REGISTER_STRING_W, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME(GS_NVTX_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
SAME(GS_NVTX_DOMAIN_CREATE_W, NVTX_CBID_CORE2_DomainCreateW);
SAME(GS_NVTX_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(GS_NVTX_UNICODE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(GS_NVTX_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
static_assert(sizeof(struct gs_nvtx_event) == sizeof(nvtxEventAttributes_t),
              "attributes");
static_assert(offsetof(struct gs_nvtx_event, message_type) ==
                      offsetof(nvtxEventAttributes_t, messageType) &&
                  offsetof(struct gs_nvtx_event, message) ==
                      offsetof(nvtxEventAttributes_t, message),
              "the message");
static_assert(sizeof(struct gs_nvtx_callbacks) == sizeof(NvtxExportTableCallbacks) &&
                  offsetof(struct gs_nvtx_callbacks, get_module) ==
                      offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable),
              "the export table");
#endif

int InitializeInjectionNvtx2(gs_nvtx_get_table *get_table);

static void (*functions[2][16])(void);
static void (**slots[2][16])(void);
static unsigned slot_count;
static bool has_modules = true;

static int get_module(int module, void (****table)(void), unsigned *count)
{
    *table = slots[module == GS_NVTX_CORE2];
    *count = slot_count;
    return has_modules;
}

static struct gs_nvtx_callbacks callbacks = {.size = sizeof(callbacks),
                                             .get_module = get_module};

static const void *get_table(uint32_t number)
{
    return number == GS_NVTX_CALLBACKS ? &callbacks : NULL;
}

static const void *get_nothing(uint32_t number)
{
    (void)number;
    return NULL;
}

static unsigned filled(unsigned module)
{
    unsigned count = 0;

    for (unsigned i = 0; i < 16; i++)
        count += functions[module][i] != NULL;
    return count;
}

static void attach(unsigned count)
{
    memset(functions, 0, sizeof(functions));
    for (unsigned i = 0; i < 32; i++)
        slots[i / 16][i % 16] = &functions[i / 16][i % 16];
    slot_count = count;
}

Test(nvtx, tables_are_filled_as_far_as_they_go)
{
    attach(16);
    cr_expect_eq(InitializeInjectionNvtx2(get_table), 1);
    cr_expect_eq(filled(0), 4);
    cr_expect_eq(filled(1), 6);
    attach(GS_NVTX_RANGE_PUSH_W);
    cr_expect_eq(InitializeInjectionNvtx2(get_table), 1);
    cr_expect_eq(filled(0), 2, "what an older NVTX has");
    cr_expect_eq(filled(1), 2);
    attach(16);
    slots[0][GS_NVTX_RANGE_POP] = NULL;
    cr_expect_eq(InitializeInjectionNvtx2(get_table), 1);
    cr_expect_eq(filled(0), 3);
}

Test(nvtx, what_is_no_table_is_refused)
{
    attach(16);
    cr_expect_eq(InitializeInjectionNvtx2(NULL), 0);
    cr_expect_eq(InitializeInjectionNvtx2(get_nothing), 0);
    callbacks.size = sizeof(callbacks) - 1;
    cr_expect_eq(InitializeInjectionNvtx2(get_table), 0);
    callbacks.size = sizeof(callbacks);
    has_modules = false;
    cr_expect_eq(InitializeInjectionNvtx2(get_table), 1);
    cr_expect_eq(filled(0) + filled(1), 0);
}

Test(nvtx, ranges_outlive_a_wrong_use)
{
    int (*push_event)(const struct gs_nvtx_event *);
    int (*push)(const char *);
    int (*pop)(void);
    struct gs_nvtx_event event = {
        .size = 8, .message_type = GS_NVTX_ASCII, .message = (void *)1};

    attach(16);
    cr_assert_eq(InitializeInjectionNvtx2(get_table), 1);
    memcpy(&push_event, &functions[0][GS_NVTX_RANGE_PUSH_EX], sizeof(push_event));
    memcpy(&push, &functions[0][GS_NVTX_RANGE_PUSH_A], sizeof(push));
    memcpy(&pop, &functions[0][GS_NVTX_RANGE_POP], sizeof(pop));
    cr_expect_lt(pop(), 0);
    cr_expect_eq(push(NULL), 0);
    cr_expect_eq(push_event(NULL), 1);
    cr_expect_eq(push_event(&event), 2, "attributes that end before their message");
    cr_expect_eq(push("\xff\xfe/"), 3);
    /* A driver's own ranges, within a wrapper: the program's stay. */
    gs_thread.depth = 1;
    cr_expect_lt(push("inside"), 0);
    cr_expect_lt(pop(), 0);
    gs_thread.depth = 0;
    for (int level = 3; level >= 0; level--)
        cr_expect_eq(pop(), level);
    cr_expect_lt(pop(), 0);
}

/*
 * cfi_rules.h - rules to unwind from the function that contains a return address.
 *
 * A rule comes from the module's .eh_frame (DWARF call frame information). Packed into 64
 * bits it can be cached and read without a lock. Rules cover the forms that compilers
 * emit for ordinary functions; anything else is GS_STEP_UNKNOWN.
 *
 * Source: DWARF 5, section 6.4; LSB Core 5.0, section 10.6 (.eh_frame, .eh_frame_hdr).
 */
#ifndef GS_CFI_RULES_H
#define GS_CFI_RULES_H

#include "gs_base.h"

/* The computation of the canonical frame address (the stack pointer before the call). */
enum gs_step {
    GS_STEP_NONE,      /* an empty cache slot; never returned */
    GS_STEP_FROM_SP,   /* stack pointer + cfa_offset */
    GS_STEP_FROM_FP,   /* frame pointer + cfa_offset */
    GS_STEP_DEREF_FP,  /* the word at frame pointer + cfa_offset (realigned stack) */
    GS_STEP_OUTERMOST, /* no caller: the return address is undefined */
    GS_STEP_NO_INFO,   /* no call frame information: code made at run time, assembly */
    GS_STEP_UNKNOWN,   /* information in an unsupported form */
};

/* The restoration of the caller's frame pointer. */
enum gs_step_fp {
    GS_STEP_FP_SAME,   /* unchanged */
    GS_STEP_FP_AT_CFA, /* saved at CFA + fp_offset */
    GS_STEP_FP_AT_FP,  /* saved where the frame pointer points (realigned stack) */
    GS_STEP_FP_LOST,   /* elsewhere; no later step may use it */
};

struct gs_cfi_rule {
    enum gs_step step;
    enum gs_step_fp fp;
    int32_t cfa_offset; /* bytes */
    int32_t fp_offset;  /* bytes from the CFA, a multiple of 8, within +-16 KiB */
    int32_t ra_offset;  /* likewise: where the return address is saved */
};

/* bits 0-2 step, 3-4 fp, 8-19 fp_offset / 8, 20-31 ra_offset / 8, 32-63 cfa_offset */
static inline uint64_t gs_cfi_pack(const struct gs_cfi_rule *rule)
{
    return (uint64_t)rule->step | (uint64_t)rule->fp << 3 |
           ((uint64_t)(rule->fp_offset / 8) & 0xfff) << 8 |
           ((uint64_t)(rule->ra_offset / 8) & 0xfff) << 20 |
           (uint64_t)(uint32_t)rule->cfa_offset << 32;
}

static inline enum gs_step gs_cfi_step(uint64_t packed)
{
    return (enum gs_step)(packed & 7);
}

static inline enum gs_step_fp gs_cfi_fp(uint64_t packed)
{
    return (enum gs_step_fp)(packed >> 3 & 3);
}

static inline intptr_t gs_cfi_fp_offset(uint64_t packed)
{
    return ((intptr_t)(packed << 44) >> 52) * 8;
}

static inline intptr_t gs_cfi_ra_offset(uint64_t packed)
{
    return ((intptr_t)(packed << 32) >> 52) * 8;
}

static inline intptr_t gs_cfi_cfa_offset(uint64_t packed)
{
    return (intptr_t)packed >> 32;
}

/*
 * Finds the rule for a code address.
 *
 * In:     pc  an address within the instruction: for a return address, one less
 * Out:    *rule
 * Locks:  takes the loader's lock (dl_iterate_phdr), which keeps modules loaded
 */
void gs_cfi_rule_find(uintptr_t pc, struct gs_cfi_rule *rule);

/*
 * The same from a given .eh_frame_hdr: for gs_cfi_rule_find and tests. All reads stay
 * within [begin, end), the readable segment that holds both sections.
 */
void gs_cfi_rule_parse(const uint8_t *begin, const uint8_t *end, const uint8_t *header,
                       uintptr_t pc, struct gs_cfi_rule *rule);

/* Returns true if an FDE, which must be whole, gives the code address no canonical frame
 * address: that of code made at run time, for exceptions alone (LuaJIT). Who unwinds by
 * it ends the process, as libgcc does. */
bool gs_cfi_lacks_frame(const uint8_t *fde, uintptr_t pc);

#endif

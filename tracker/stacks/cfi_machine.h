/*
 * cfi_machine.h - executes call frame instructions up to one code address.
 *
 * Of the call frame table the machine keeps only the columns that a walk needs: the CFA,
 * the frame pointer and the return address.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CFI_MACHINE_H
#define GS_CFI_MACHINE_H

#include "tracker/stacks/cfi_reader.h"
#include "tracker/stacks/cfi_rules.h"

#define GS_CFI_ROW_STACK 8

enum gs_cfi_register_how {
    GS_CFI_REG_SAME,
    GS_CFI_REG_AT_CFA,
    GS_CFI_REG_AT_FP,
    GS_CFI_REG_UNDEFINED,
    GS_CFI_REG_ELSEWHERE
};

struct gs_cfi_register {
    enum gs_cfi_register_how how;
    int64_t offset;
};

enum gs_cfi_cfa_how {
    GS_CFI_CFA_NONE,
    GS_CFI_CFA_FROM_SP,
    GS_CFI_CFA_FROM_FP,
    GS_CFI_CFA_DEREF_FP,
    GS_CFI_CFA_OTHER
};

/* One row of the call frame table, with the columns that a walk needs. */
struct gs_cfi_row {
    enum gs_cfi_cfa_how cfa;
    int64_t cfa_offset;
    struct gs_cfi_register fp, ra;
};

/* A common information entry, and the state of its execution. */
struct gs_cfi_machine {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_register;
    uint8_t pointer_encoding;
    bool signal_frame, has_augmentation_size;
    struct gs_cfi_row row, initial, stack[GS_CFI_ROW_STACK];
    unsigned stack_used;
};

/*
 * Executes instructions until the row of `pc`; `location` is the first address of the
 * table. `in` turns bad at an unknown instruction.
 */
void gs_cfi_run(struct gs_cfi_machine *m, struct gs_cfi_reader *in, uint64_t location,
                uint64_t pc);

/* Converts the current row to a rule; leaves `rule` unchanged if no rule can express
 * it. */
void gs_cfi_rule_of_row(const struct gs_cfi_machine *m, struct gs_cfi_rule *rule);

#endif

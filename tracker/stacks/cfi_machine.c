/*
 * cfi_machine.c - executes DWARF's call frame instructions.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 * Source: DWARF 5, section 6.4.2; GNU extensions as in LSB Core 5.0, section 10.6.
 */
#include "tracker/stacks/cfi_machine.h"

#if defined(__x86_64__)
#define REG_FP 6
#define REG_SP 7
#define REG_RA 16
#elif defined(__aarch64__)
#define REG_FP 29
#define REG_SP 31
#define REG_RA 30
#else
#error "call frame information: registers of this machine are not known"
#endif

/* Multiplies an operand by the data alignment. A nonsensical operand wraps. */
static int64_t scaled(const struct gs_cfi_machine *m, uint64_t operand)
{
    return (int64_t)(operand * (uint64_t)m->data_align);
}

static struct gs_cfi_register *rule_of(struct gs_cfi_machine *m, uint64_t number)
{
    if (number == REG_FP) {
        return &m->row.fp;
    }
    return number == REG_RA ? &m->row.ra : NULL;
}

static void set_rule(struct gs_cfi_machine *m, uint64_t number,
                     enum gs_cfi_register_how how, int64_t offset)
{
    struct gs_cfi_register *rule = rule_of(m, number);

    if (rule != NULL) {
        *rule = (struct gs_cfi_register){how, offset};
    }
}

static void restore_rule(struct gs_cfi_machine *m, uint64_t number)
{
    if (number == REG_FP) {
        m->row.fp = m->initial.fp;
    } else if (number == REG_RA) {
        m->row.ra = m->initial.ra;
    }
}

static void set_cfa(struct gs_cfi_machine *m, uint64_t number, int64_t offset)
{
    m->row.cfa = number == REG_SP   ? GS_CFI_CFA_FROM_SP
                 : number == REG_FP ? GS_CFI_CFA_FROM_FP
                                    : GS_CFI_CFA_OTHER;
    m->row.cfa_offset = offset;
}

/* Accepts one expression, "the word at frame pointer + n": GCC writes it where main
 * realigns the stack. */
static void set_cfa_expression(struct gs_cfi_machine *m, struct gs_cfi_reader *in)
{
    uint64_t bytes = gs_cfi_read_uleb(in);
    struct gs_cfi_reader code = *in;

    gs_cfi_skip_bytes(in, bytes);
    m->row.cfa = GS_CFI_CFA_OTHER;
    if (in->bad) {
        return;
    }
    code.end = in->at;
    if (gs_cfi_read_bytes(&code, 1) != 0x70 + REG_FP) { /* DW_OP_breg<fp> */
        return;
    }
    m->row.cfa_offset = gs_cfi_read_sleb(&code);
    if (gs_cfi_read_bytes(&code, 1) == 0x06 && !code.bad && code.at == code.end) {
        m->row.cfa = GS_CFI_CFA_DEREF_FP;
    }
}

static void set_register_expression(struct gs_cfi_machine *m, struct gs_cfi_reader *in)
{
    uint64_t number = gs_cfi_read_uleb(in);
    uint64_t bytes = gs_cfi_read_uleb(in);
    struct gs_cfi_reader code = *in;
    enum gs_cfi_register_how how = GS_CFI_REG_ELSEWHERE;
    int64_t offset = 0;

    gs_cfi_skip_bytes(in, bytes);
    if (in->bad) {
        return;
    }
    code.end = in->at;
    if (gs_cfi_read_bytes(&code, 1) == 0x70 + REG_FP) {
        offset = gs_cfi_read_sleb(&code);
        if (!code.bad && code.at == code.end) {
            how = GS_CFI_REG_AT_FP;
        }
    }
    set_rule(m, number, how, offset);
}

static void push_or_pop_row(struct gs_cfi_machine *m, struct gs_cfi_reader *in, bool push)
{
    if (push && m->stack_used < GS_CFI_ROW_STACK) {
        m->stack[m->stack_used++] = m->row;
    } else if (!push && m->stack_used > 0) {
        m->row = m->stack[--m->stack_used];
    } else {
        in->bad = true;
    }
}

/* Executes an instruction that has an opcode byte of its own, except advances. */
static void run_extended(struct gs_cfi_machine *m, struct gs_cfi_reader *in,
                         uint8_t opcode)
{
    uint64_t number;

    switch (opcode) {
    case 0x00: /* nop */
    case 0x2d: /* GNU_window_save; AARCH64_negate_ra_state: signatures are stripped */
        break;
    case 0x05: /* offset_extended */
        number = gs_cfi_read_uleb(in);
        set_rule(m, number, GS_CFI_REG_AT_CFA, scaled(m, gs_cfi_read_uleb(in)));
        break;
    case 0x11: /* offset_extended_sf */
        number = gs_cfi_read_uleb(in);
        set_rule(m, number, GS_CFI_REG_AT_CFA, scaled(m, (uint64_t)gs_cfi_read_sleb(in)));
        break;
    case 0x2f: /* GNU_negative_offset_extended */
        number = gs_cfi_read_uleb(in);
        set_rule(m, number, GS_CFI_REG_AT_CFA, scaled(m, -gs_cfi_read_uleb(in)));
        break;
    case 0x06: /* restore_extended */
        restore_rule(m, gs_cfi_read_uleb(in));
        break;
    case 0x07: /* undefined */
        set_rule(m, gs_cfi_read_uleb(in), GS_CFI_REG_UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        set_rule(m, gs_cfi_read_uleb(in), GS_CFI_REG_SAME, 0);
        break;
    case 0x09: /* register */
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf: the second operand needs no sign to be skipped */
        set_rule(m, gs_cfi_read_uleb(in), GS_CFI_REG_ELSEWHERE, 0);
        gs_cfi_read_uleb(in);
        break;
    case 0x0a: /* remember_state */
    case 0x0b: /* restore_state */
        push_or_pop_row(m, in, opcode == 0x0a);
        break;
    case 0x0c: /* def_cfa */
        number = gs_cfi_read_uleb(in);
        set_cfa(m, number, (int64_t)gs_cfi_read_uleb(in));
        break;
    case 0x12: /* def_cfa_sf */
        number = gs_cfi_read_uleb(in);
        set_cfa(m, number, scaled(m, (uint64_t)gs_cfi_read_sleb(in)));
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(m, gs_cfi_read_uleb(in), m->row.cfa_offset);
        break;
    case 0x0e: /* def_cfa_offset */
        m->row.cfa_offset = (int64_t)gs_cfi_read_uleb(in);
        break;
    case 0x13: /* def_cfa_offset_sf */
        m->row.cfa_offset = scaled(m, (uint64_t)gs_cfi_read_sleb(in));
        break;
    case 0x0f: /* def_cfa_expression */
        set_cfa_expression(m, in);
        break;
    case 0x10: /* expression */
        set_register_expression(m, in);
        break;
    case 0x16: /* val_expression */
        set_rule(m, gs_cfi_read_uleb(in), GS_CFI_REG_ELSEWHERE, 0);
        gs_cfi_skip_bytes(in, gs_cfi_read_uleb(in));
        break;
    case 0x2e: /* GNU_args_size */
        gs_cfi_read_uleb(in);
        break;
    default:
        in->bad = true;
    }
}

void gs_cfi_run(struct gs_cfi_machine *m, struct gs_cfi_reader *in, uint64_t location,
                uint64_t pc)
{
    while (!in->bad && in->at < in->end && location <= pc) {
        uint8_t opcode = (uint8_t)gs_cfi_read_bytes(in, 1);
        uint64_t low = opcode & 0x3f;

        switch (opcode & 0xc0) {
        case 0x40:
            location += low * m->code_align;
            continue;
        case 0x80:
            set_rule(m, low, GS_CFI_REG_AT_CFA, scaled(m, gs_cfi_read_uleb(in)));
            continue;
        case 0xc0:
            restore_rule(m, low);
            continue;
        }
        if (opcode >= 0x02 && opcode <= 0x04) { /* advance_loc1, 2, 4 */
            location += gs_cfi_read_bytes(in, (size_t)1 << (opcode - 2)) * m->code_align;
        } else {
            run_extended(m, in, opcode);
        }
    }
}

static bool fits_packed(int64_t offset)
{
    return offset % 8 == 0 && offset >= -2048 * 8 && offset < 2048 * 8;
}

void gs_cfi_rule_of_row(const struct gs_cfi_machine *m, struct gs_cfi_rule *rule)
{
    const struct gs_cfi_row *row = &m->row;

    if (m->signal_frame || m->ra_register != REG_RA) {
        return;
    }
    if (row->ra.how == GS_CFI_REG_UNDEFINED) {
        rule->step = GS_STEP_OUTERMOST;
        return;
    }
    if (row->ra.how != GS_CFI_REG_AT_CFA || !fits_packed(row->ra.offset) ||
        row->cfa_offset < INT32_MIN || row->cfa_offset > INT32_MAX) {
        return;
    }
    rule->ra_offset = (int32_t)row->ra.offset;
    rule->cfa_offset = (int32_t)row->cfa_offset;
    rule->fp = GS_STEP_FP_LOST;
    if (row->fp.how == GS_CFI_REG_SAME) {
        rule->fp = GS_STEP_FP_SAME;
    } else if (row->fp.how == GS_CFI_REG_AT_CFA && fits_packed(row->fp.offset)) {
        rule->fp = GS_STEP_FP_AT_CFA;
        rule->fp_offset = (int32_t)row->fp.offset;
    } else if (row->fp.how == GS_CFI_REG_AT_FP && row->fp.offset == 0) {
        rule->fp = GS_STEP_FP_AT_FP;
    }
    if (row->cfa == GS_CFI_CFA_FROM_SP) {
        rule->step = GS_STEP_FROM_SP;
    } else if (row->cfa == GS_CFI_CFA_FROM_FP) {
        rule->step = GS_STEP_FROM_FP;
    } else if (row->cfa == GS_CFI_CFA_DEREF_FP) {
        rule->step = GS_STEP_DEREF_FP;
    }
}

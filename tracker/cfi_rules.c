/*
 * cfi_rules.c - reads .eh_frame_hdr and .eh_frame in memory, for one code address.
 *
 * Role:  the slow half of unwind_cfi.c: runs once for each return address met.
 * Owns:  nothing.   Lock: the loader's, by dl_iterate_phdr.   Design: docs/stacks.md
 *
 * Every read is checked against the segment it lies in; a section that is cut or makes no
 * sense gives GS_STEP_UNKNOWN, never a wild read.
 */
#include "cfi_rules.h"

#include <link.h>
#include <string.h>

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

#define ENC_OMIT    0xff
#define ENC_PCREL   0x10
#define ENC_DATAREL 0x30
#define ENC_FORMAT  0x0f

#define ROW_STACK_DEPTH 8

/* A reader that turns sticky-bad instead of leaving its range. */
struct reader {
    const uint8_t *at, *end;
    bool bad;
};

enum register_how { REG_SAME, REG_AT_CFA, REG_AT_FP, REG_UNDEFINED, REG_ELSEWHERE };

struct register_rule {
    enum register_how how;
    int64_t offset;
};

enum cfa_how { CFA_NONE, CFA_FROM_SP, CFA_FROM_FP, CFA_DEREF_FP, CFA_OTHER };

/* One row of the call frame table: only what a walk needs. */
struct row {
    enum cfa_how cfa;
    int64_t cfa_offset;
    struct register_rule fp, ra;
};

/* A common information entry, and what runs it. */
struct machine {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_register;
    uint8_t pointer_encoding;
    bool signal_frame, has_augmentation_size;
    struct row row, initial, stack[ROW_STACK_DEPTH];
    unsigned stack_used;
};

static uint64_t read_bytes(struct reader *in, size_t bytes)
{
    uint64_t value = 0;

    if (in->bad || (size_t)(in->end - in->at) < bytes) {
        in->bad = true;
        return 0;
    }
    memcpy(&value, in->at, bytes);
    in->at += bytes;
    return value;
}

static void skip_bytes(struct reader *in, uint64_t bytes)
{
    if (in->bad || (uint64_t)(in->end - in->at) < bytes)
        in->bad = true;
    else
        in->at += bytes;
}

static uint64_t read_uleb(struct reader *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = read_bytes(in, 1);
        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    in->bad = true;
    return 0;
}

static int64_t read_sleb(struct reader *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = read_bytes(in, 1);
        value |= (byte & 0x7f) << shift;
        shift += 7;
        if ((byte & 0x80) == 0) {
            if (shift < 64 && (byte & 0x40) != 0)
                value |= ~(uint64_t)0 << shift;
            return (int64_t)value;
        }
    }
    in->bad = true;
    return 0;
}

/* A number in a DW_EH_PE format, without what it is relative to. */
static uint64_t read_format(struct reader *in, uint8_t encoding)
{
    switch (encoding & ENC_FORMAT) {
    case 0x00: /* absptr */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        return read_bytes(in, 8);
    case 0x02: /* udata2 */
        return read_bytes(in, 2);
    case 0x0a: /* sdata2 */
        return (uint64_t)(int64_t)(int16_t)read_bytes(in, 2);
    case 0x03: /* udata4 */
        return read_bytes(in, 4);
    case 0x0b: /* sdata4 */
        return (uint64_t)(int64_t)(int32_t)read_bytes(in, 4);
    case 0x01:
        return read_uleb(in);
    case 0x09:
        return (uint64_t)read_sleb(in);
    }
    in->bad = true;
    return 0;
}

static uint64_t read_pointer(struct reader *in, uint8_t encoding)
{
    uint64_t base = (uintptr_t)in->at;
    uint64_t value = read_format(in, encoding);

    switch (encoding & 0xf0) {
    case 0:
        return value;
    case ENC_PCREL:
        return base + value;
    }
    in->bad = true;
    return 0;
}

/* The length word of an entry; narrows `in` to the entry's bytes. */
static void enter_entry(struct reader *in)
{
    uint64_t length = read_bytes(in, 4);

    if (length == 0 || length >= 0xfffffff0 || in->bad ||
        (uint64_t)(in->end - in->at) < length)
        in->bad = true;
    else
        in->end = in->at + length;
}

/* A CIE's augmentation data; `text` is the NUL-terminated augmentation string. */
static void read_augmentation(struct reader *in, struct machine *m, const char *text)
{
    uint64_t bytes = read_uleb(in);
    struct reader data = *in;

    skip_bytes(in, bytes);
    if (in->bad)
        return;
    data.end = in->at;
    m->has_augmentation_size = true;
    for (text++; *text != '\0'; text++) {
        switch (*text) {
        case 'R':
            m->pointer_encoding = (uint8_t)read_bytes(&data, 1);
            break;
        case 'L':
            read_bytes(&data, 1);
            break;
        case 'P':
            read_format(&data, (uint8_t)read_bytes(&data, 1));
            break;
        case 'S':
            m->signal_frame = true;
            break;
        case 'B': /* return addresses are signed with the other key */
        case 'G':
            break;
        default:
            in->bad = true;
        }
    }
    in->bad |= data.bad;
}

/* Parse the CIE; leaves `in` at its initial instructions. */
static void read_cie(struct reader *in, struct machine *m)
{
    const char *augmentation;
    uint64_t id, version;

    enter_entry(in);
    id = read_bytes(in, 4);
    version = read_bytes(in, 1);
    if (in->bad || id != 0 || (version != 1 && version != 3)) {
        in->bad = true;
        return;
    }
    augmentation = (const char *)in->at;
    while (read_bytes(in, 1) != 0)
        ;
    m->code_align = read_uleb(in);
    m->data_align = read_sleb(in);
    m->ra_register = version == 1 ? read_bytes(in, 1) : read_uleb(in);
    if (in->bad)
        return;
    if (augmentation[0] == 'z')
        read_augmentation(in, m, augmentation);
    else if (augmentation[0] != '\0')
        in->bad = true;
}

/* A factored offset; wraps instead of overflowing where the operand makes no sense. */
static int64_t scaled(const struct machine *m, uint64_t operand)
{
    return (int64_t)(operand * (uint64_t)m->data_align);
}

static struct register_rule *rule_of(struct machine *m, uint64_t number)
{
    if (number == REG_FP)
        return &m->row.fp;
    return number == REG_RA ? &m->row.ra : NULL;
}

static void set_rule(struct machine *m, uint64_t number, enum register_how how,
                     int64_t offset)
{
    struct register_rule *rule = rule_of(m, number);

    if (rule != NULL)
        *rule = (struct register_rule){how, offset};
}

static void restore_rule(struct machine *m, uint64_t number)
{
    if (number == REG_FP)
        m->row.fp = m->initial.fp;
    else if (number == REG_RA)
        m->row.ra = m->initial.ra;
}

static void set_cfa(struct machine *m, uint64_t number, int64_t offset)
{
    m->row.cfa = number == REG_SP   ? CFA_FROM_SP
                 : number == REG_FP ? CFA_FROM_FP
                                    : CFA_OTHER;
    m->row.cfa_offset = offset;
}

/* "the word at frame pointer + n", as GCC writes it where main realigns the stack. */
static void set_cfa_expression(struct machine *m, struct reader *in)
{
    uint64_t bytes = read_uleb(in);
    struct reader code = *in;

    skip_bytes(in, bytes);
    m->row.cfa = CFA_OTHER;
    if (in->bad)
        return;
    code.end = in->at;
    if (read_bytes(&code, 1) != 0x70 + REG_FP) /* DW_OP_breg<fp> */
        return;
    m->row.cfa_offset = read_sleb(&code);
    if (read_bytes(&code, 1) == 0x06 && !code.bad && code.at == code.end)
        m->row.cfa = CFA_DEREF_FP;
}

static void set_register_expression(struct machine *m, struct reader *in)
{
    uint64_t number = read_uleb(in);
    uint64_t bytes = read_uleb(in);
    struct reader code = *in;
    enum register_how how = REG_ELSEWHERE;
    int64_t offset = 0;

    skip_bytes(in, bytes);
    if (in->bad)
        return;
    code.end = in->at;
    if (read_bytes(&code, 1) == 0x70 + REG_FP) {
        offset = read_sleb(&code);
        if (!code.bad && code.at == code.end)
            how = REG_AT_FP;
    }
    set_rule(m, number, how, offset);
}

static void push_or_pop_row(struct machine *m, struct reader *in, bool push)
{
    if (push && m->stack_used < ROW_STACK_DEPTH)
        m->stack[m->stack_used++] = m->row;
    else if (!push && m->stack_used > 0)
        m->row = m->stack[--m->stack_used];
    else
        in->bad = true;
}

/* The instructions that have an opcode byte of their own; advances are the caller's. */
static void run_extended(struct machine *m, struct reader *in, uint8_t opcode)
{
    uint64_t number;

    switch (opcode) {
    case 0x00: /* nop */
    case 0x2d: /* GNU_window_save; AARCH64_negate_ra_state: signatures are stripped */
        break;
    case 0x05: /* offset_extended */
        number = read_uleb(in);
        set_rule(m, number, REG_AT_CFA, scaled(m, read_uleb(in)));
        break;
    case 0x11: /* offset_extended_sf */
        number = read_uleb(in);
        set_rule(m, number, REG_AT_CFA, scaled(m, (uint64_t)read_sleb(in)));
        break;
    case 0x2f: /* GNU_negative_offset_extended */
        number = read_uleb(in);
        set_rule(m, number, REG_AT_CFA, scaled(m, -read_uleb(in)));
        break;
    case 0x06: /* restore_extended */
        restore_rule(m, read_uleb(in));
        break;
    case 0x07: /* undefined */
        set_rule(m, read_uleb(in), REG_UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        set_rule(m, read_uleb(in), REG_SAME, 0);
        break;
    case 0x09: /* register */
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf: the second operand is skipped alike */
        set_rule(m, read_uleb(in), REG_ELSEWHERE, 0);
        read_uleb(in);
        break;
    case 0x0a: /* remember_state */
    case 0x0b: /* restore_state */
        push_or_pop_row(m, in, opcode == 0x0a);
        break;
    case 0x0c: /* def_cfa */
        number = read_uleb(in);
        set_cfa(m, number, (int64_t)read_uleb(in));
        break;
    case 0x12: /* def_cfa_sf */
        number = read_uleb(in);
        set_cfa(m, number, scaled(m, (uint64_t)read_sleb(in)));
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(m, read_uleb(in), m->row.cfa_offset);
        break;
    case 0x0e: /* def_cfa_offset */
        m->row.cfa_offset = (int64_t)read_uleb(in);
        break;
    case 0x13: /* def_cfa_offset_sf */
        m->row.cfa_offset = scaled(m, (uint64_t)read_sleb(in));
        break;
    case 0x0f: /* def_cfa_expression */
        set_cfa_expression(m, in);
        break;
    case 0x10: /* expression */
        set_register_expression(m, in);
        break;
    case 0x16: /* val_expression */
        set_rule(m, read_uleb(in), REG_ELSEWHERE, 0);
        skip_bytes(in, read_uleb(in));
        break;
    case 0x2e: /* GNU_args_size */
        read_uleb(in);
        break;
    default:
        in->bad = true;
    }
}

/* Run instructions until the row that holds `pc`; `location` is where the table begins.
 */
static void run_program(struct machine *m, struct reader *in, uint64_t location,
                        uint64_t pc)
{
    while (!in->bad && in->at < in->end && location <= pc) {
        uint8_t opcode = (uint8_t)read_bytes(in, 1);
        uint64_t low = opcode & 0x3f;

        switch (opcode & 0xc0) {
        case 0x40:
            location += low * m->code_align;
            continue;
        case 0x80:
            set_rule(m, low, REG_AT_CFA, scaled(m, read_uleb(in)));
            continue;
        case 0xc0:
            restore_rule(m, low);
            continue;
        }
        if (opcode >= 0x02 && opcode <= 0x04) /* advance_loc1, 2, 4 */
            location += read_bytes(in, (size_t)1 << (opcode - 2)) * m->code_align;
        else
            run_extended(m, in, opcode);
    }
}

static bool fits_packed(int64_t offset)
{
    return offset % 8 == 0 && offset >= -2048 * 8 && offset < 2048 * 8;
}

static void rule_from_row(const struct machine *m, struct gs_cfi_rule *rule)
{
    const struct row *row = &m->row;

    if (m->signal_frame || m->ra_register != REG_RA)
        return;
    if (row->ra.how == REG_UNDEFINED) {
        rule->step = GS_STEP_OUTERMOST;
        return;
    }
    if (row->ra.how != REG_AT_CFA || !fits_packed(row->ra.offset) ||
        row->cfa_offset < INT32_MIN || row->cfa_offset > INT32_MAX)
        return;
    rule->ra_offset = (int32_t)row->ra.offset;
    rule->cfa_offset = (int32_t)row->cfa_offset;
    rule->fp = GS_STEP_FP_LOST;
    if (row->fp.how == REG_SAME) {
        rule->fp = GS_STEP_FP_SAME;
    } else if (row->fp.how == REG_AT_CFA && fits_packed(row->fp.offset)) {
        rule->fp = GS_STEP_FP_AT_CFA;
        rule->fp_offset = (int32_t)row->fp.offset;
    } else if (row->fp.how == REG_AT_FP && row->fp.offset == 0) {
        rule->fp = GS_STEP_FP_AT_FP;
    }
    if (row->cfa == CFA_FROM_SP)
        rule->step = GS_STEP_FROM_SP;
    else if (row->cfa == CFA_FROM_FP)
        rule->step = GS_STEP_FROM_FP;
    else if (row->cfa == CFA_DEREF_FP)
        rule->step = GS_STEP_DEREF_FP;
}

/*
 * The table of .eh_frame_hdr: the entry with the greatest start <= pc.
 * Returns its FDE, NULL if there is none or the table is of another form.
 */
static const uint8_t *search_header(const uint8_t *begin, const uint8_t *end,
                                    const uint8_t *header, uintptr_t pc)
{
    struct reader in = {header, end, false};
    uint8_t version, pointer_encoding, count_encoding, table_encoding;
    uint64_t count, low = 0;
    int32_t entry[2];

    if (header < begin || header >= end)
        return NULL;
    version = (uint8_t)read_bytes(&in, 1);
    pointer_encoding = (uint8_t)read_bytes(&in, 1);
    count_encoding = (uint8_t)read_bytes(&in, 1);
    table_encoding = (uint8_t)read_bytes(&in, 1);
    if (in.bad || version != 1 || count_encoding == ENC_OMIT ||
        table_encoding != (ENC_DATAREL | 0x0b))
        return NULL;
    read_format(&in, pointer_encoding);
    count = read_format(&in, count_encoding);
    if (in.bad || count > (uint64_t)(in.end - in.at) / sizeof(entry))
        return NULL;
    while (count > 0) { /* first entry with start > pc is at low + count at the end */
        uint64_t half = count / 2;

        memcpy(entry, in.at + (low + half) * sizeof(entry), sizeof(entry));
        if ((uintptr_t)header + (uintptr_t)(intptr_t)entry[0] <= pc) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    if (low == 0)
        return NULL;
    memcpy(entry, in.at + (low - 1) * sizeof(entry), sizeof(entry));
    if (entry[1] < begin - header || entry[1] >= end - header)
        return NULL;
    return header + entry[1];
}

void gs_cfi_rule_parse(const uint8_t *begin, const uint8_t *end, const uint8_t *header,
                       uintptr_t pc, struct gs_cfi_rule *rule)
{
    struct machine m = {.row = {.cfa = CFA_NONE}};
    const uint8_t *fde = search_header(begin, end, header, pc), *id_field;
    struct reader in = {fde, end, false}, cie = {begin, end, false};
    uint64_t id, start, length;

    memset(rule, 0, sizeof(*rule));
    rule->step = GS_STEP_NO_INFO;
    if (fde == NULL)
        return;
    rule->step = GS_STEP_UNKNOWN;
    enter_entry(&in);
    id_field = in.at;
    id = read_bytes(&in, 4);
    if (in.bad || id == 0 || id > (uint64_t)(id_field - begin))
        return;
    cie.at = id_field - id;
    read_cie(&cie, &m);
    if (cie.bad)
        return;
    start = read_pointer(&in, m.pointer_encoding);
    length = read_format(&in, m.pointer_encoding & ENC_FORMAT);
    if (m.has_augmentation_size)
        skip_bytes(&in, read_uleb(&in));
    if (in.bad)
        return;
    if (pc < start || pc - start >= length) {
        rule->step = GS_STEP_NO_INFO;
        return;
    }
    run_program(&m, &cie, 0, UINT64_MAX);
    m.initial = m.row;
    run_program(&m, &in, start, pc);
    if (!cie.bad && !in.bad)
        rule_from_row(&m, rule);
}

struct search {
    uintptr_t pc;
    struct gs_cfi_rule *rule;
};

/* dl_iterate_phdr callback: non-zero once the module with the address was found. */
static int search_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;
    const ElfW(Phdr) *header = NULL, *text = NULL, *data = NULL;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_GNU_EH_FRAME)
            header = p;
        else if (p->p_type == PT_LOAD &&
                 search->pc - info->dlpi_addr - p->p_vaddr < p->p_memsz)
            text = p;
    }
    if (text == NULL)
        return 0;
    for (unsigned i = 0; header != NULL && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 &&
            header->p_vaddr - p->p_vaddr < p->p_memsz)
            data = p;
    }
    if (data != NULL) {
        const uint8_t *begin = (const uint8_t *)info->dlpi_addr + data->p_vaddr;

        gs_cfi_rule_parse(begin, begin + data->p_memsz,
                          begin + (header->p_vaddr - data->p_vaddr), search->pc,
                          search->rule);
    }
    return 1;
}

void gs_cfi_rule_find(uintptr_t pc, struct gs_cfi_rule *rule)
{
    struct search search = {pc, rule};

    memset(rule, 0, sizeof(*rule));
    rule->step = GS_STEP_NO_INFO;
    dl_iterate_phdr(search_module, &search);
}

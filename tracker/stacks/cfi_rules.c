/*
 * cfi_rules.c - reads .eh_frame_hdr and .eh_frame in memory, for one code address.
 *
 * Role:  the slow path of unwind_cfi.c: runs once for each new return address.
 * Owns:  nothing.   Lock: the loader's, by dl_iterate_phdr.   Design: docs/stacks.md
 *
 * Every read is checked against its segment. A truncated or invalid section yields
 * GS_STEP_UNKNOWN, never a wild read.
 */
#include "tracker/stacks/cfi_rules.h"

#include "tracker/names/loaded.h"
#include "tracker/stacks/cfi_machine.h"

#include <link.h>
#include <string.h>

/* Reads the length of an entry; narrows `in` to the entry's bytes. */
static void enter_entry(struct gs_cfi_reader *in)
{
    uint64_t length = gs_cfi_read_bytes(in, 4);

    if (length == 0 || length >= 0xfffffff0 || in->bad ||
        (uint64_t)(in->end - in->at) < length) {
        in->bad = true;
    } else {
        in->end = in->at + length;
    }
}

/* Reads a CIE's augmentation data; `text` is the NUL-terminated augmentation string. */
static void read_augmentation(struct gs_cfi_reader *in, struct gs_cfi_machine *m,
                              const char *text)
{
    uint64_t bytes = gs_cfi_read_uleb(in);
    struct gs_cfi_reader data = *in;

    gs_cfi_skip_bytes(in, bytes);
    if (in->bad) {
        return;
    }
    data.end = in->at;
    m->has_augmentation_size = true;
    for (text++; *text != '\0'; text++) {
        switch (*text) {
        case 'R':
            m->pointer_encoding = (uint8_t)gs_cfi_read_bytes(&data, 1);
            break;
        case 'L':
            gs_cfi_read_bytes(&data, 1);
            break;
        case 'P':
            gs_cfi_read_format(&data, (uint8_t)gs_cfi_read_bytes(&data, 1));
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

/* Parses the CIE; leaves `in` at its initial instructions. */
static void read_cie(struct gs_cfi_reader *in, struct gs_cfi_machine *m)
{
    const char *augmentation;
    uint64_t id, version;

    enter_entry(in);
    id = gs_cfi_read_bytes(in, 4);
    version = gs_cfi_read_bytes(in, 1);
    if (in->bad || id != 0 || (version != 1 && version != 3)) {
        in->bad = true;
        return;
    }
    augmentation = (const char *)in->at;
    while (gs_cfi_read_bytes(in, 1) != 0) {
    }
    m->code_align = gs_cfi_read_uleb(in);
    m->data_align = gs_cfi_read_sleb(in);
    m->ra_register = version == 1 ? gs_cfi_read_bytes(in, 1) : gs_cfi_read_uleb(in);
    if (in->bad) {
        return;
    }
    if (augmentation[0] == 'z') {
        read_augmentation(in, m, augmentation);
    } else if (augmentation[0] != '\0') {
        in->bad = true;
    }
}

/*
 * Searches the table of .eh_frame_hdr for the entry with the greatest start <= pc.
 * Returns its FDE; NULL if there is none, or the table has another form.
 */
static const uint8_t *search_header(const uint8_t *begin, const uint8_t *end,
                                    const uint8_t *header, uintptr_t pc)
{
    struct gs_cfi_reader in = {header, end, false};
    uint8_t version, pointer_encoding, count_encoding, table_encoding;
    uint64_t count, low = 0;
    int32_t entry[2];

    if (header < begin || header >= end) {
        return NULL;
    }
    version = (uint8_t)gs_cfi_read_bytes(&in, 1);
    pointer_encoding = (uint8_t)gs_cfi_read_bytes(&in, 1);
    count_encoding = (uint8_t)gs_cfi_read_bytes(&in, 1);
    table_encoding = (uint8_t)gs_cfi_read_bytes(&in, 1);
    if (in.bad || version != 1 || count_encoding == GS_CFI_ENC_OMIT ||
        table_encoding != (GS_CFI_ENC_DATAREL | 0x0b)) {
        return NULL;
    }
    gs_cfi_read_format(&in, pointer_encoding);
    count = gs_cfi_read_format(&in, count_encoding);
    if (in.bad || count > (uint64_t)(in.end - in.at) / sizeof(entry)) {
        return NULL;
    }
    while (count > 0) { /* ends with low + count at the first entry with start > pc */
        uint64_t half = count / 2;

        memcpy(entry, in.at + (low + half) * sizeof(entry), sizeof(entry));
        if ((uintptr_t)header + (uintptr_t)(intptr_t)entry[0] <= pc) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    if (low == 0) {
        return NULL;
    }
    memcpy(entry, in.at + (low - 1) * sizeof(entry), sizeof(entry));
    if (entry[1] < begin - header || entry[1] >= end - header) {
        return NULL;
    }
    return header + entry[1];
}

/* Executes an FDE and its CIE up to the row of `pc`. Returns GS_STEP_UNKNOWN: `m` has the
 * row; GS_STEP_NO_INFO: the FDE is of other code; GS_STEP_NONE: it cannot be read. */
static enum gs_step run_entry(struct gs_cfi_machine *m, const uint8_t *begin,
                              const uint8_t *end, const uint8_t *fde, uintptr_t pc)
{
    struct gs_cfi_reader in = {fde, end, false}, cie = {begin, end, false};
    const uint8_t *id_field;
    uint64_t id, start, length;

    enter_entry(&in);
    id_field = in.at;
    id = gs_cfi_read_bytes(&in, 4);
    if (in.bad || id == 0 || id > (uint64_t)(id_field - begin)) {
        return GS_STEP_NONE;
    }
    cie.at = id_field - id;
    read_cie(&cie, m);
    if (cie.bad) {
        return GS_STEP_NONE;
    }
    start = gs_cfi_read_pointer(&in, m->pointer_encoding);
    length = gs_cfi_read_format(&in, m->pointer_encoding & GS_CFI_ENC_FORMAT);
    if (m->has_augmentation_size) {
        gs_cfi_skip_bytes(&in, gs_cfi_read_uleb(&in));
    }
    if (in.bad) {
        return GS_STEP_NONE;
    }
    if (pc < start || pc - start >= length) {
        return GS_STEP_NO_INFO;
    }
    gs_cfi_run(m, &cie, 0, UINT64_MAX);
    m->initial = m->row;
    gs_cfi_run(m, &in, start, pc);
    return cie.bad || in.bad ? GS_STEP_NONE : GS_STEP_UNKNOWN;
}

void gs_cfi_rule_parse(const uint8_t *begin, const uint8_t *end, const uint8_t *header,
                       uintptr_t pc, struct gs_cfi_rule *rule)
{
    struct gs_cfi_machine m = {.row = {.cfa = GS_CFI_CFA_NONE}};
    const uint8_t *fde = search_header(begin, end, header, pc);
    enum gs_step found;

    memset(rule, 0, sizeof(*rule));
    rule->step = GS_STEP_NO_INFO;
    if (fde == NULL) {
        return;
    }
    found = run_entry(&m, begin, end, fde, pc);
    rule->step = found == GS_STEP_NO_INFO ? GS_STEP_NO_INFO : GS_STEP_UNKNOWN;
    if (found == GS_STEP_UNKNOWN) {
        gs_cfi_rule_of_row(&m, rule);
    }
}

bool gs_cfi_lacks_frame(const uint8_t *fde, uintptr_t pc)
{
    struct gs_cfi_machine m = {.row = {.cfa = GS_CFI_CFA_NONE}};

    return run_entry(&m, NULL, (const uint8_t *)UINTPTR_MAX, fde, pc) ==
               GS_STEP_UNKNOWN &&
           m.row.cfa == GS_CFI_CFA_NONE;
}

struct search {
    uintptr_t pc;
    struct gs_cfi_rule *rule;
    bool asked; /* the loader's table of addresses does not help */
};

/* Returns false if the address is not in this module. */
static bool search_module(const struct search *search, const struct dl_phdr_info *info)
{
    const ElfW(Phdr) *header = NULL, *text = NULL, *data = NULL;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_GNU_EH_FRAME) {
            header = p;
        } else if (p->p_type == PT_LOAD &&
                   search->pc - info->dlpi_addr - p->p_vaddr < p->p_memsz) {
            text = p;
        }
    }
    if (text == NULL) {
        return false;
    }
    for (unsigned i = 0; header != NULL && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 &&
            header->p_vaddr - p->p_vaddr < p->p_memsz) {
            data = p;
        }
    }
    if (data != NULL) {
        const uint8_t *begin = (const uint8_t *)info->dlpi_addr + data->p_vaddr;

        gs_cfi_rule_parse(begin, begin + data->p_memsz,
                          begin + (header->p_vaddr - data->p_vaddr), search->pc,
                          search->rule);
    }
    return true;
}

/* dl_iterate_phdr callback: returns non-zero once it has found the module of the
 * address. */
static int visit_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;

    (void)size;
    if (!search->asked) {
        struct gs_loaded_object object;
        struct dl_phdr_info found;

        search->asked = true;
        if (gs_loaded_object(search->pc, &object) &&
            gs_loaded_describe(object.map, &found) && search_module(search, &found)) {
            return 1;
        }
    }
    return search_module(search, info);
}

void gs_cfi_rule_find(uintptr_t pc, struct gs_cfi_rule *rule)
{
    struct search search = {.pc = pc, .rule = rule};

    memset(rule, 0, sizeof(*rule));
    rule->step = GS_STEP_NO_INFO;
    dl_iterate_phdr(visit_module, &search);
}

/*
 * python_code.c - reads the name, file and lines of a code object.
 *
 * Owns:  python->scratch.   Lock: python->lock for the first read of a code object; none
 * for its fingerprint.   Design: docs/python.md
 *
 * Another code object may take the address of a freed one. Since 3.12 each code object
 * has a unique number. For earlier versions a fingerprint covers all that a report shows
 * of a code object: the hashes of its texts, and the bytes of its line table, since only
 * the table may differ after a file was edited and reloaded.
 */
#include "tracker/host_memory.h"
#include "tracker/python/python_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TEXT_BYTES    512u              /* of a name, with its NUL */
#define FILE_BYTES    1024u             /* of a file name */
#define TABLE_BYTES   ((size_t)4 << 20) /* of a line table */
#define PRINTED_BYTES 512u              /* of a line table; a longer table is sampled */

#define UNIT_BYTES 2
#define HASH_UNSET UINT64_MAX

#define NO_SANITIZE __attribute__((no_sanitize("address"), no_sanitize("thread")))

NO_SANITIZE static inline uint64_t word_at(uintptr_t address)
{
    uint64_t word;

    __builtin_memcpy(&word, (const void *)address, sizeof(word));
    return word;
}

NO_SANITIZE static inline uint32_t half_at(uintptr_t address)
{
    return *(const volatile uint32_t *)address;
}

bool gs_python_copy(void *to, uintptr_t from, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

__attribute__((cold, noinline)) bool gs_python_query_page(struct gs_python *python,
                                                          uintptr_t page)
{
    uint8_t byte;

    if (!gs_python_copy(&byte, page << GS_PYTHON_PAGE_BITS, 1)) {
        return false;
    }
    atomic_store_explicit(&python->pages[page % GS_PYTHON_PAGES], page,
                          memory_order_relaxed);
    return true;
}

/* ---- the fingerprint of a code object --------------------------------------------- */

/* Reads the last bytes of a range, fewer than eight, as a number. */
NO_SANITIZE static uint64_t rest_at(uintptr_t at, size_t bytes)
{
    uint64_t word = 0;

    if (bytes & 4) {
        word = half_at(at);
        at += 4;
    }
    for (bytes &= 3; bytes > 0; at++, bytes--) {
        word = word << 8 | *(const volatile uint8_t *)at;
    }
    return word;
}

#if defined(__x86_64__)

static _Atomic bool has_crc; /* several threads may find the interpreter at once */

void gs_python_code_start(void)
{
    unsigned a, b, c, d;

    atomic_store_explicit(&has_crc,
                          __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) != 0,
                          memory_order_relaxed);
}

static inline uint64_t crc_word(uint64_t sum, uint64_t word)
{
    __asm__("crc32q %1, %0" : "+r"(sum) : "r"(word)); /* compilers differ in its name */
    return sum;
}

/* A third of the instructions of the hash below. */
NO_SANITIZE static uint64_t crc_bytes(uintptr_t at, size_t bytes)
{
    uint64_t even = bytes, odd = 0;

    for (; bytes >= 16; at += 16, bytes -= 16) {
        even = crc_word(even, word_at(at));
        odd = crc_word(odd, word_at(at + 8));
    }
    if (bytes >= 8) {
        even = crc_word(even, word_at(at));
        at += 8;
        bytes -= 8;
    }
    return crc_word(even, rest_at(at, bytes)) << 32 | odd;
}

#else

void gs_python_code_start(void)
{
}

#endif

NO_SANITIZE static uint64_t print_bytes(uintptr_t at, size_t bytes)
{
    uint64_t sum = bytes, key = 0x9e3779b97f4a7c15u;

#if defined(__x86_64__)
    if (GS_LIKELY(atomic_load_explicit(&has_crc, memory_order_relaxed))) {
        return crc_bytes(at, bytes);
    }
#endif

    for (; bytes >= 16; at += 16, bytes -= 16, key += 0x9e3779b97f4a7c15u) {
        sum += gs_python_mix(word_at(at) ^ key, word_at(at + 8));
    }
    if (bytes >= 8) {
        sum += gs_python_mix(word_at(at) ^ key, 0);
        at += 8;
        bytes -= 8;
        key += 0x9e3779b97f4a7c15u;
    }
    return bytes > 0 ? sum + gs_python_mix(rest_at(at, bytes) ^ key, 1) : sum;
}

/* The length of a string object's characters in bytes, and their address; 0: the string
 * is not stored in a compact form. */
static size_t text_span(const struct gs_python_layout *layout, uint64_t length,
                        uint32_t state, uint16_t *offset)
{
    unsigned kind = state >> 2 & 7;
    bool compact = state >> 5 & 1, ascii = state >> 6 & 1;

    *offset = ascii ? layout->text_ascii : layout->text_wide;
    if (!compact || (kind != 1 && kind != 2 && kind != 4) || length > TABLE_BYTES) {
        return 0;
    }
    return (size_t)length * kind;
}

/* Hashes memory that may be longer than a page. */
static inline uint64_t print_span(struct gs_python *python, uintptr_t at, size_t bytes)
{
    uintptr_t page = at >> GS_PYTHON_PAGE_BITS;
    uintptr_t last = (at + bytes - 1) >> GS_PYTHON_PAGE_BITS;

    if (bytes == 0) {
        return 0;
    }
    do {
        if (!gs_python_page(python, page)) {
            return 0;
        }
    } while (GS_UNLIKELY(page++ != last));
    return print_bytes(at, bytes);
}

static uint64_t print_text(struct gs_python *python, uintptr_t text)
{
    const struct gs_python_layout *layout = &python->layout;
    uint16_t offset;
    uint64_t hash;
    size_t bytes;

    if (!gs_python_readable(python, text, layout->text_state + sizeof(uint32_t))) {
        return 0;
    }
    hash = word_at(text + layout->text_hash);
    if (GS_UNLIKELY(hash == HASH_UNSET)) {
        bytes = text_span(layout, word_at(text + layout->text_length),
                          half_at(text + layout->text_state), &offset);
        hash = print_span(python, text + offset, bytes);
    }
    return hash;
}

static uint64_t print_table(struct gs_python *python, uintptr_t code)
{
    const struct gs_python_layout *layout = &python->layout;
    uintptr_t table = word_at(code + layout->line_table);
    size_t bytes;

    if (!gs_python_readable(python, table, layout->bytes_data)) {
        return 0;
    }
    bytes = word_at(table + layout->bytes_length);
    table += layout->bytes_data;
    if (GS_LIKELY(bytes <= PRINTED_BYTES)) {
        return print_span(python, table, bytes);
    }
    if (bytes > TABLE_BYTES) {
        return 0;
    }
    /* The table is too long to be hashed each time: hash both ends, and the addresses of
     * its parts. */
    return gs_python_mix(
               print_span(python, table, PRINTED_BYTES / 2) ^ bytes,
               print_span(python, table + bytes - PRINTED_BYTES / 2, PRINTED_BYTES / 2)) ^
           print_bytes(code + layout->file,
                       layout->line_table + sizeof(uintptr_t) - layout->file);
}

uint64_t gs_python_code_contents(struct gs_python *python, uintptr_t code,
                                 struct gs_python_file *file)
{
    const struct gs_python_layout *layout = &python->layout;
    uint64_t first = half_at(code + layout->first_line);
    uintptr_t name = word_at(code + layout->qualified_name);
    uintptr_t file_name = word_at(code + layout->file);

    if (file->text != file_name) {
        file->print = print_text(python, file_name);
        file->text = file_name;
    }
    return gs_python_mix(print_text(python, name) ^ first, file->print) ^
           print_table(python, code);
}

/* ---- reading a code object for the first time ------------------------------------- */

/* Writes a character as UTF-8, a surrogate as "?". Returns the number of bytes. */
static unsigned put_utf8(char *to, uint32_t c)
{
    if (c < 0x20 || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) {
        c = '?';
    }
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t character(const uint8_t *data, size_t i, unsigned kind)
{
    uint16_t two;
    uint32_t four;

    if (kind == 1) {
        return data[i];
    }
    if (kind == 2) {
        memcpy(&two, data + 2 * i, sizeof(two));
        return two;
    }
    memcpy(&four, data + 4 * i, sizeof(four));
    return four;
}

/* Copies a string object's text, cut to the size of `out`. */
static bool copy_text(const struct gs_python_layout *layout, uintptr_t text, char *out,
                      size_t size)
{
    uint8_t head[64], data[FILE_BYTES];
    uint64_t length;
    uint32_t state;
    uint16_t offset;
    size_t bytes, used = 0;
    unsigned kind;

    if (layout->text_state + 4u > sizeof(head) ||
        layout->text_length + 8u > sizeof(head) ||
        !gs_python_copy(head, text, layout->text_state + 4)) {
        return false;
    }
    memcpy(&length, head + layout->text_length, sizeof(length));
    memcpy(&state, head + layout->text_state, sizeof(state));
    kind = state >> 2 & 7;
    bytes = text_span(layout, length, state, &offset);
    if (bytes == 0) {
        return false;
    }
    if (bytes > sizeof(data)) {
        bytes = sizeof(data);
    }
    if (!gs_python_copy(data, text + offset, bytes)) {
        return false;
    }
    for (size_t i = 0; i < bytes / kind && used + 5 <= size; i++) {
        used += put_utf8(out + used, character(data, i, kind));
    }
    out[used] = '\0';
    return true;
}

/* A buffer for the copy of a line table; NULL: no memory. Under lock. */
static uint8_t *scratch(struct gs_python *python, size_t bytes)
{
    size_t wanted = (bytes | 0xffff) + 1;
    uint8_t *room;

    if (python->scratch_bytes >= bytes) {
        return python->scratch;
    }
    room = gs_host_map(wanted);
    if (room == NULL) {
        return NULL;
    }
    gs_host_unmap(python->scratch, python->scratch_bytes);
    atomic_fetch_add_explicit(&python->bytes, wanted - python->scratch_bytes,
                              memory_order_relaxed);
    python->scratch = room;
    python->scratch_bytes = wanted;
    return room;
}

static uint64_t field(const uint8_t *head, uint16_t offset)
{
    uint64_t value;

    memcpy(&value, head + offset, sizeof(value));
    return value;
}

/* Computes the offset of an instruction in bytes; false: it is outside of the code
 * object. */
static bool instruction_offset(const struct gs_python_layout *layout, const uint8_t *head,
                               uintptr_t code, uintptr_t at, bool generator,
                               int64_t *offset, bool *written)
{
    int32_t traceable;

    *written = true;
    if (layout->instructions == GS_PYTHON_NO_FIELD) {
        *offset = (int32_t)(uint32_t)(at >> 1);
        if (layout->lines == GS_PYTHON_LINETABLE) {
            *offset *= UNIT_BYTES;
        }
        return *offset >= -UNIT_BYTES;
    }
    *offset = (int64_t)(at - (code + layout->instructions));
    memcpy(&traceable, head + layout->first_traceable, sizeof(traceable));
    if (!generator && *offset < (int64_t)traceable * UNIT_BYTES) {
        *written = false;
    }
    return *offset >= -UNIT_BYTES &&
           *offset < (int64_t)field(head, layout->object_bytes) * UNIT_BYTES;
}

/* Copies the code object's table, unless the last copy is of the same: a function of
 * thousands of lines is read line by line. Under lock. */
static bool copy_lines(struct gs_python *python, const uint8_t *head,
                       const struct gs_python_table_key *key)
{
    const struct gs_python_layout *layout = &python->layout;
    uintptr_t table = key->table;
    struct gs_python_lines *lines = &python->lines;
    uint64_t bytes;
    uint8_t *room;

    if (lines->table != NULL && memcmp(&python->lines_of, key, sizeof(*key)) == 0) {
        return true;
    }
    lines->table = NULL;
    if (!gs_python_copy(&bytes, table + layout->bytes_length, sizeof(bytes)) ||
        bytes > TABLE_BYTES) {
        return false;
    }
    room = scratch(python, bytes);
    if (room == NULL ||
        (bytes > 0 && !gs_python_copy(room, table + layout->bytes_data, bytes))) {
        return false;
    }
    *lines = (struct gs_python_lines){
        .kind = (enum gs_python_table)layout->lines, .table = room, .bytes = bytes};
    memcpy(&lines->first, head + layout->first_line, sizeof(lines->first));
    python->lines_of = *key;
    return true;
}

size_t gs_python_code_bytes(const struct gs_python_layout *layout)
{
    size_t bytes = layout->line_table;

    if (layout->first_traceable != GS_PYTHON_NO_FIELD &&
        layout->first_traceable > bytes) {
        bytes = layout->first_traceable;
    }
    return bytes + sizeof(uint64_t);
}

uintptr_t gs_python_code_frame(struct gs_python *python, uintptr_t code, uintptr_t at,
                               bool generator, uint64_t print)
{
    const struct gs_python_layout *layout = &python->layout;
    struct gs_python_table_key key = {.code = code, .print = print};
    uint8_t head[GS_PYTHON_CODE_BYTES];
    char name[TEXT_BYTES], file[FILE_BYTES];
    int64_t offset;
    bool written;
    uintptr_t frame = 0;

    if (python->code_bytes > sizeof(head) ||
        !gs_python_copy(head, code, python->code_bytes) ||
        !instruction_offset(layout, head, code, at, generator, &offset, &written) ||
        !written ||
        !copy_text(layout, field(head, layout->qualified_name), name, sizeof(name)) ||
        !copy_text(layout, field(head, layout->file), file, sizeof(file))) {
        return 0;
    }
    key.table = field(head, layout->line_table);
    gs_mutex_lock(python->lock);
    if (copy_lines(python, head, &key)) {
        frame = gs_python_location_add(python, name, file,
                                       gs_python_line(&python->lines, offset));
    }
    gs_mutex_unlock(python->lock);
    return frame;
}

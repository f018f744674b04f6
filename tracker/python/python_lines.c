/*
 * python_lines.c - the three forms of CPython's line tables.
 * Owns: nothing.   Lock: none.   Design: docs/python.md
 *
 * The tables come from untrusted memory: whatever they contain, the code reads nothing
 * outside of them, and every step consumes at least one byte.
 */
#include "tracker/python/python_lines.h"

#define UNIT_BYTES       2 /* of an instruction */
#define NO_LINE_STEP     (-128)
#define LAST_OF_BYTE     0x3fu
#define VARINT_CONTINUES 0x40u

static unsigned as_line(int64_t line)
{
    return line > 0 && line <= INT32_MAX ? (unsigned)line : 0;
}

static unsigned line_there(const struct gs_python_lines *lines)
{
    return as_line(lines->first + lines->step);
}

/* Pairs (bytes of code, signed change of the line). The change applies after the code. */
static unsigned line_by_lnotab(struct gs_python_lines *lines, int64_t offset)
{
    for (; lines->at + 1 < lines->bytes; lines->at += 2) {
        if (lines->covered + lines->table[lines->at] > offset) {
            break;
        }
        lines->covered += lines->table[lines->at];
        lines->step += (int8_t)lines->table[lines->at + 1];
    }
    return line_there(lines);
}

/* Pairs (bytes of code, signed change of the line). The change applies before the code;
 * one value marks code without a line. */
static unsigned line_by_linetable(struct gs_python_lines *lines, int64_t offset)
{
    for (; lines->at + 1 < lines->bytes; lines->at += 2) {
        int byte = lines->table[lines->at + 1], step = byte < 128 ? byte : byte - 256;
        int64_t end = lines->covered + lines->table[lines->at];

        if (step == NO_LINE_STEP) {
            step = 0;
        }
        if (offset < end) {
            return byte == 256 + NO_LINE_STEP
                       ? 0
                       : as_line(lines->first + lines->step + step);
        }
        lines->covered = end;
        lines->step += step;
    }
    return 0;
}

/* A variable-length number: six bits a byte, the lowest first; bit 0 is the sign. */
static int64_t signed_varint(const uint8_t *at, const uint8_t *end)
{
    uint64_t value = 0;
    unsigned shift = 0;

    for (; at < end; at++, shift += 6) {
        if (shift < 36) {
            value |= (uint64_t)(*at & LAST_OF_BYTE) << shift;
        }
        if (!(*at & VARINT_CONTINUES)) {
            break;
        }
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* The first byte of an entry has its highest bit set. It holds the form of the entry and
 * the number of code units. */
static unsigned line_by_locations(struct gs_python_lines *lines, int64_t offset)
{
    const uint8_t *at = lines->table + lines->at, *end = lines->table + lines->bytes;

    while (at < end) {
        unsigned form = *at >> 3 & 15;
        bool has_line = form != 15;
        int64_t covered = lines->covered + ((*at & 7) + 1) * UNIT_BYTES, step = 0;

        at++;
        if (form == 13 || form == 14) {
            step = signed_varint(at, end);
        } else if (form >= 10 && form <= 12) {
            step = form - 10;
        }
        if (offset < covered) {
            return has_line ? as_line(lines->first + lines->step + step) : 0;
        }
        while (at < end && !(*at & 0x80)) {
            at++;
        }
        lines->at = (size_t)(at - lines->table);
        lines->covered = covered;
        lines->step += step;
    }
    return 0;
}

unsigned gs_python_line(struct gs_python_lines *lines, int64_t offset)
{
    if (offset < 0) {
        return as_line(lines->first);
    }
    if (offset < lines->covered) {
        lines->at = 0;
        lines->covered = lines->step = 0;
    }
    switch (lines->kind) {
    case GS_PYTHON_LNOTAB:
        return line_by_lnotab(lines, offset);
    case GS_PYTHON_LINETABLE:
        return line_by_linetable(lines, offset);
    case GS_PYTHON_LOCATIONS:
        break;
    }
    return line_by_locations(lines, offset);
}

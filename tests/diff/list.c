/*
 * list.c - lists as text: settings first, then an operation a line,
 * `process.thread name arguments`. A `#` begins a comment.
 */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

const struct diff_row diff_rows[DIFF_KINDS] = {
#define DIFF_OP(name, group, weight, arguments, what)                                    \
    {#name, DIFF_GROUP_##group, weight, arguments},
#include "ops.def"
#undef DIFF_OP
};

unsigned diff_arguments(enum diff_kind kind)
{
    const char *at = diff_rows[kind].arguments;
    unsigned words = *at != '\0';

    for (; *at; at++)
        words += *at == ' ';
    return words;
}

void diff_list_print(const struct diff_list *list, FILE *out)
{
    fprintf(out,
            "set seed %llu\nset memory %u\nset devices %u\nset lean %d\nset free %d\n"
            "set way %u\n",
            (unsigned long long)list->seed, list->memory_mib, list->devices, list->lean,
            list->free, list->way);
    for (unsigned i = 0; i < list->count; i++) {
        const struct diff_op *op = &list->ops[i];

        fprintf(out, "%u.%u %s", op->process, op->thread, diff_rows[op->kind].name);
        for (unsigned j = 0; j < diff_arguments(op->kind); j++)
            fprintf(out, " %lld", (long long)op->args[j]);
        fputc('\n', out);
    }
}

static bool parse_setting(char *text, struct diff_list *list)
{
    unsigned long long value;
    char name[16];

    if (sscanf(text, "set %15s %llu", name, &value) != 2)
        return false;
    if (strcmp(name, "seed") == 0)
        list->seed = value;
    else if (strcmp(name, "memory") == 0)
        list->memory_mib = (unsigned)value;
    else if (strcmp(name, "devices") == 0)
        list->devices = (unsigned)value;
    else if (strcmp(name, "lean") == 0)
        list->lean = value != 0;
    else if (strcmp(name, "free") == 0)
        list->free = value != 0;
    else if (strcmp(name, "way") == 0 && value < DIFF_WAYS)
        list->way = (unsigned)value;
    else
        return false;
    return true;
}

static bool parse_op(const char *text, struct diff_op *op)
{
    unsigned process, thread, kind, i;
    char name[32];
    int length;

    if (sscanf(text, "%u.%u %31s%n", &process, &thread, name, &length) != 3 ||
        process >= DIFF_PROCESSES || thread >= DIFF_THREADS)
        return false;
    for (kind = 0; kind < DIFF_KINDS && strcmp(diff_rows[kind].name, name) != 0; kind++)
        ;
    if (kind == DIFF_KINDS)
        return false;
    *op = (struct diff_op){(uint8_t)process, (uint8_t)thread, (uint16_t)kind, {0}};
    for (i = 0; i < diff_arguments((enum diff_kind)kind); i++) {
        char *end;

        op->args[i] = strtoll(text + length, &end, 10);
        if (end == text + length)
            return false;
        length = (int)(end - text);
    }
    return true;
}

bool diff_list_parse(FILE *in, struct diff_list *out)
{
    char line[256];

    out->seed = 0;
    out->memory_mib = 1024;
    out->devices = 1;
    out->way = DIFF_WAY_LINKED;
    out->lean = out->free = false;
    out->count = 0;
    for (unsigned number = 1; fgets(line, sizeof(line), in); number++) {
        char *text = line + strspn(line, " \t");

        text[strcspn(text, "#\n")] = '\0';
        if (*text == '\0' || parse_setting(text, out))
            continue;
        if (out->count == DIFF_OPS || !parse_op(text, &out->ops[out->count])) {
            fprintf(stderr, "diff: line %u is no operation: %s\n", number, text);
            return false;
        }
        out->count++;
    }
    return true;
}

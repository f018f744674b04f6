/*
 * fatbin.c - what to hand to the driver of a fat binary that nvcc wrote. The simulated
 * device knows kernels by their names, which are readable in PTX alone; so where a fat
 * binary holds PTX as text (nvcc -no-compress) that text is taken out, and otherwise (PTX
 * is compressed) the whole is passed on. Only the head of the format is used: magic, size
 * of the head, bytes that follow, as fatbinary.h of earlier toolkits declared it.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC 0xba55ed50u

struct fatbin_head {
    uint32_t magic;
    uint16_t version;
    uint16_t head_bytes;
    uint64_t bytes; /* behind the head */
};

/* The first word of every PTX module (PTX ISA, "PTX Module Directives: .version"). */
static const char ptx_start[] = ".version ";

/* Compressed PTX begins like text, too: its first bytes are literal. */
static bool is_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c > '~')
            return false;
    }
    return true;
}

char *gs_rt_fatbin_ptx(const void *image)
{
    struct fatbin_head head;
    const char *body, *text;
    size_t length;
    char *copy;

    memcpy(&head.magic, image, sizeof(head.magic));
    if (head.magic != FATBIN_MAGIC)
        return NULL;
    memcpy(&head, image, sizeof(head));
    body = (const char *)image + head.head_bytes;
    text = memmem(body, head.bytes, ptx_start, strlen(ptx_start));
    if (!text)
        return NULL;
    length = strnlen(text, head.bytes - (size_t)(text - body));
    if (!is_text(text, length))
        return NULL;
    copy = malloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

/*
 * image.c - what a module is loaded from. PTX is text: the names of its kernels follow
 * the word .entry. Of binaries (cubin, fat binary) only the magic number is looked at.
 * Owns:  images.   Lock: none, immutable.
 * Source: PTX ISA, "Kernel and Function Directives: .entry".
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

#define FATBIN_MAGIC  0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

/* What nvcc puts in front of a fat binary. */
struct fatbin_wrapper {
    uint32_t magic;
    uint32_t version;
    const void *data;
};

static bool is_binary(const void *data)
{
    uint32_t magic;

    memcpy(&magic, data, sizeof(magic));
    return magic == FATBIN_MAGIC || memcmp(data, "\177ELF", 4) == 0;
}

/* Skip blanks and comments. */
static const char *skip_space(const char *text)
{
    for (;;) {
        while (isspace((unsigned char)*text))
            text++;
        if (text[0] == '/' && text[1] == '/') {
            text += strcspn(text, "\n");
        } else if (text[0] == '/' && text[1] == '*') {
            const char *end = strstr(text + 2, "*/");
            text = end ? end + 2 : text + strlen(text);
        } else {
            return text;
        }
    }
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool add_name(struct sim_image *image, const char *start, size_t length)
{
    char **names = realloc(image->names, (image->count + 1) * sizeof(char *));

    if (!names)
        return false;
    image->names = names;
    names[image->count] = strndup(start, length);
    if (!names[image->count])
        return false;
    image->count++;
    return true;
}

/* Collect the names behind .entry, outside comments and strings. */
static bool read_ptx(struct sim_image *image, const char *text)
{
    for (text = skip_space(text); *text; text = skip_space(text)) {
        if (*text == '"') {
            const char *end = strchr(text + 1, '"');
            text = end ? end + 1 : text + strlen(text);
        } else if (strncmp(text, ".entry", 6) == 0 && !is_name_char(text[6])) {
            const char *name = skip_space(text + 6);
            size_t length = 0;
            while (is_name_char(name[length]))
                length++;
            if (length && !add_name(image, name, length))
                return false;
            text = name + length;
        } else if (is_name_char(*text)) {
            while (is_name_char(*text))
                text++;
        } else {
            text++;
        }
    }
    return true;
}

CUresult sim_image_load(const void *data, struct sim_image **out)
{
    struct fatbin_wrapper wrapper;
    const char *text = data;

    /* Four bytes first: a short text ends within them. */
    if (!text[0] || !text[1] || !text[2])
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&wrapper.magic, data, sizeof(wrapper.magic));
    if (wrapper.magic == WRAPPER_MAGIC) {
        memcpy(&wrapper, data, sizeof(wrapper));
        data = wrapper.data;
        text = data;
        if (!data)
            return CUDA_ERROR_INVALID_IMAGE;
    }
    bool binary = is_binary(data);
    if (!binary && strncmp(skip_space(text), ".version", 8) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    struct sim_image *image = calloc(1, sizeof(*image));
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&image->refs, 1);
    image->any_name = binary;
    if (!binary && !read_ptx(image, text)) {
        sim_image_unref(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = image;
    return CUDA_SUCCESS;
}

void sim_image_ref(struct sim_image *image)
{
    atomic_fetch_add_explicit(&image->refs, 1, memory_order_relaxed);
}

void sim_image_unref(struct sim_image *image)
{
    if (atomic_fetch_sub_explicit(&image->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < image->count; i++)
        free(image->names[i]);
    free(image->names);
    free(image);
}

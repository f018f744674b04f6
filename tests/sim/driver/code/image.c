/*
 * image.c - what a module is loaded from. PTX is text: the names of its kernels follow
 * the word .entry, .version and .target are read, variables (variables.c), and brackets
 * must match; the rest of its grammar is not looked at. Of binaries (cubin, fat binary)
 * only the magic number is looked at. Owns:  images.   Lock: none, immutable. Source: PTX
 * ISA, "Kernel and Function Directives: .entry".
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "module.h"

#define FATBIN_MAGIC  0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u
#define BINARY_TARGET 90 /* of the simulated device */

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

/* The brackets that are open at a place of the text. */
struct nesting {
    char open[64];
    size_t depth;
};

/* Follow one character; false if it closes what is not open. */
static bool nest(struct nesting *nesting, char c)
{
    static const char opening[] = "({[", closing[] = ")}]";
    const char *at = strchr(closing, c);

    if (strchr(opening, c)) {
        if (nesting->depth == sizeof(nesting->open))
            return false;
        nesting->open[nesting->depth++] = c;
    } else if (at) {
        return nesting->depth > 0 &&
               nesting->open[--nesting->depth] == opening[at - closing];
    }
    return true;
}

/* Collect the names behind .entry, outside comments and strings. */
static CUresult read_names(struct sim_image *image, const char *text)
{
    struct nesting nesting = {.depth = 0};

    for (text = skip_space(text); *text; text = skip_space(text)) {
        if (*text == '"') {
            const char *end = strchr(text + 1, '"');
            text = end ? end + 1 : text + strlen(text);
        } else if (strncmp(text, ".entry", 6) == 0 && !is_name_char(text[6])) {
            const char *name = skip_space(text + 6);
            size_t length = 0;
            while (is_name_char(name[length]))
                length++;
            if (length == 0)
                return CUDA_ERROR_INVALID_PTX;
            if (!add_name(image, name, length))
                return CUDA_ERROR_OUT_OF_MEMORY;
            text = name + length;
        } else if (is_name_char(*text)) {
            while (is_name_char(*text))
                text++;
        } else if (nest(&nesting, *text)) {
            text++;
        } else {
            return CUDA_ERROR_INVALID_PTX;
        }
    }
    return nesting.depth == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

/*
 * A driver of CUDA M.N reads PTX up to version M-4.N ("Release Notes" of the PTX ISA:
 * 7.4 with CUDA 11.4, 8.4 with 12.4, 9.0 with 13.0).
 */
static bool version_is_known(unsigned major, unsigned minor)
{
    int driver = sim_config()->driver_version;
    unsigned most = (unsigned)(driver / 1000) - 4;

    return major < most || (major == most && minor <= (unsigned)driver % 1000 / 10);
}

/* PTX begins with .version M.N and .target sm_A. */
static CUresult read_ptx(struct sim_image *image, const char *text)
{
    unsigned major, minor;
    int used = 0;

    text = skip_space(text);
    if (sscanf(text, ".version %u.%u%n", &major, &minor, &used) != 2)
        return CUDA_ERROR_INVALID_PTX;
    if (!version_is_known(major, minor))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    text = skip_space(text + used);
    if (sscanf(text, ".target sm_%d", &image->target) != 1)
        return CUDA_ERROR_INVALID_PTX;
    return read_names(image, text);
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
    image->target = BINARY_TARGET;
    CUresult res = binary ? CUDA_SUCCESS : read_ptx(image, text);
    if (res == CUDA_SUCCESS && !binary && !sim_image_read_variables(image, text))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res != CUDA_SUCCESS) {
        sim_image_unref(image);
        return res;
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
    for (size_t i = 0; i < image->variable_count; i++)
        free(image->variables[i].name);
    free(image->variables);
    free(image->names);
    free(image);
}

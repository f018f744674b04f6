/*
 * api_link.c - the linker: several images become one. PTX is put one behind the other, so
 * that the result's kernels and variables have their names; with a binary among the
 * images it is a binary whose names are not known. Owns:  the links.   Lock: link->lock.
 * Source: Driver API, "Module Management", cuLinkCreate to cuLinkDestroy.
 */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "module.h"

struct sim_link {
    struct sim_object object;
    pthread_mutex_t lock;
    char *text;         /* lock; what was added, NUL behind it; the result once done */
    size_t bytes;       /* lock; without the NUL */
    bool binary;        /* lock */
    bool done;          /* lock */
    void **log_size[2]; /* immutable: of the information and error logs; or NULL */
};

/* Begins like a cubin. */
static const char binary_image[64] = "\177ELF";

static void destroy(struct sim_object *object)
{
    struct sim_link *link = (struct sim_link *)object;

    pthread_mutex_destroy(&link->lock);
    free(link->text);
    free(link);
}

SIM_API(cuLinkCreate_v2, unsigned int count, CUjit_option *options, void **values,
        CUlinkState *out)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuLinkCreate_v2, &context));
    if (!out || (count > 0 && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_link *link = calloc(1, sizeof(*link));
    if (!link)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&link->object, SIM_TYPE_LINK, destroy);
    pthread_mutex_init(&link->lock, NULL);
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            link->log_size[0] = &values[i];
        else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            link->log_size[1] = &values[i];
    }
    void *handle = sim_handle_open(&link->object);
    if (handle)
        *out = handle;
    sim_object_unref(&link->object);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Needs link->lock. */
static CUresult append(struct sim_link *link, const char *data, size_t bytes)
{
    char *grown = realloc(link->text, link->bytes + bytes + 2);

    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes = strnlen(data, bytes);
    memcpy(grown + link->bytes, data, bytes);
    link->text = grown;
    link->bytes += bytes;
    grown[link->bytes++] = '\n';
    grown[link->bytes] = '\0';
    return CUDA_SUCCESS;
}

static CUresult add(CUlinkState handle, CUjitInputType type, const void *data,
                    size_t bytes)
{
    CUresult res = CUDA_SUCCESS;

    if (!data || bytes == 0 || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_link *link = (struct sim_link *)sim_handle_get(handle, SIM_TYPE_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&link->lock);
    if (link->done)
        res = CUDA_ERROR_INVALID_VALUE;
    else if (type != CU_JIT_INPUT_PTX)
        link->binary = link->binary || type != CU_JIT_INPUT_LIBRARY;
    else
        res = append(link, data, bytes);
    pthread_mutex_unlock(&link->lock);
    sim_object_unref(&link->object);
    return res;
}

SIM_API(cuLinkAddData_v2, CUlinkState handle, CUjitInputType type, void *data,
        size_t bytes, const char *name, unsigned int count, CUjit_option *options,
        void **values)
{
    SIM_JUDGED_FIRST(true, handle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuLinkAddData_v2));
    (void)name;
    if (count > 0 && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return add(handle, type, data, bytes);
}

SIM_API(cuLinkAddFile_v2, CUlinkState handle, CUjitInputType type, const char *path,
        unsigned int count, CUjit_option *options, void **values)
{
    SIM_JUDGED_FIRST(true, handle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);

    size_t bytes;

    SIM_TRY(sim_enter(SIM_ID_cuLinkAddFile_v2));
    if (!path || (count > 0 && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    char *data = sim_image_read_file(path, &bytes);
    if (!data)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult res = add(handle, type, data, bytes);
    free(data);
    return res;
}

/* What was put together is an image: its errors are found now, as by a compiler. */
static CUresult complete(struct sim_link *link, void **out, size_t *bytes)
{
    struct sim_image *image;

    if (!link->binary && link->bytes == 0)
        return CUDA_ERROR_INVALID_IMAGE;
    if (!link->binary) {
        SIM_TRY(sim_image_load(link->text, &image));
        sim_image_unref(image);
    }
    for (int i = 0; i < 2; i++) {
        if (link->log_size[i])
            *link->log_size[i] = NULL;
    }
    link->done = true;
    *out = link->binary ? (void *)binary_image : link->text;
    if (bytes)
        *bytes = link->binary ? sizeof(binary_image) : link->bytes + 1;
    return CUDA_SUCCESS;
}

SIM_API(cuLinkComplete, CUlinkState handle, void **out, size_t *bytes)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuLinkComplete));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_link *link = (struct sim_link *)sim_handle_get(handle, SIM_TYPE_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&link->lock);
    CUresult res = complete(link, out, bytes);
    pthread_mutex_unlock(&link->lock);
    sim_object_unref(&link->object);
    return res;
}

SIM_API(cuLinkDestroy, CUlinkState handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuLinkDestroy));
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_LINK);
    if (!closed)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_unref(closed);
    return CUDA_SUCCESS;
}

/*
 * module.h - images, modules and libraries, and the functions found in them.
 * Owns: these.   Lock: module->lock for a module's or library's functions; an image is
 * immutable.
 */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "handle.h"
#include "kernels.h"

/* A variable of PTX (.global, .const) or of a cubin. */
struct sim_variable {
    char *name;
    size_t bytes;
};

/* The names of an image's kernels; of a binary image they are not known. */
struct sim_image {
    atomic_uint refs;
    bool any_name; /* a binary: every name is taken for a kernel */
    int target;    /* the virtual architecture it was compiled for, as in sm_75 */
    size_t count;
    char **names;
    size_t variable_count;
    struct sim_variable *variables;
};

/* A variable's memory in a module. */
struct sim_global {
    const struct sim_variable *variable;
    struct sim_alloc *memory; /* with a reference */
    struct sim_global *next;
};

struct sim_settings;

/* A function of a module or a kernel of a library. */
struct sim_function {
    struct sim_object object;
    void *owner_handle;          /* of its module or library */
    struct sim_context *context; /* identity only; NULL: a library's kernel */
    uint64_t context_id;
    char *name;
    const struct sim_kernel *kernel; /* NULL: a no-op */
    atomic_bool said;                /* that it is one */
    int target;                      /* its image's */
    atomic_int shared_bytes;         /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    struct sim_settings *settings;   /* api_launch_old.c; NULL: none was made */
    struct sim_function *next;       /* module->lock */
};

/* A module of a context, or a library of the process (context NULL). */
struct sim_module {
    struct sim_object object;
    struct sim_context *context; /* with a reference; NULL: a library */
    uint64_t context_id;
    struct sim_image *image;    /* with a reference */
    struct sim_module *library; /* a library's module in a context: whose; or NULL */
    pthread_mutex_t lock;
    struct sim_function *functions; /* lock; each with a reference */
    struct sim_global *globals;     /* lock; ended with the module's functions */
    struct sim_module *modules;     /* lock; a library's modules, each with a reference */
    struct sim_module *next;        /* the library's lock */
};

/*
 * Read an image: PTX text by its .entry names, a cubin or fat binary without names.
 *
 * Errors:  CUDA_ERROR_INVALID_IMAGE            neither
 *          CUDA_ERROR_INVALID_PTX              PTX whose brackets do not match
 *          CUDA_ERROR_UNSUPPORTED_PTX_VERSION  PTX newer than the driver
 */
CUresult sim_image_load(const void *data, struct sim_image **out) GS_MUST_USE;

/* Enter a variable. Errors: false  out of memory */
bool sim_image_add_variable(struct sim_image *image, const char *name, size_t length,
                            size_t bytes) GS_MUST_USE;

/* The variables of PTX text, in variables.c. Errors: false  out of memory */
bool sim_image_read_variables(struct sim_image *image, const char *text) GS_MUST_USE;

/* A file's bytes with a NUL behind them, to be freed; NULL if it cannot be read. */
char *sim_image_read_file(const char *path, size_t *bytes) GS_MUST_USE;
void sim_image_ref(struct sim_image *image);
void sim_image_unref(struct sim_image *image);

/* A module or library over an image (its reference is taken over), without a handle yet.
 */
struct sim_module *sim_module_new(enum sim_type type, struct sim_image *image,
                                  struct sim_context *context) GS_MUST_USE;

/* Close the handles of its functions, and free its variables; what runs keeps them alive.
 */
void sim_module_end_functions(struct sim_module *module);

/*
 * The function of that name, with a reference for the caller.
 *
 * Errors:  CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_module_function(struct sim_module *module, enum sim_type type,
                             const char *name, struct sim_function **out) GS_MUST_USE;

/*
 * The memory of a module's variable, made at the first call and zero: initial values are
 * not read. The module keeps it.
 *
 * Errors:  CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_module_variable(struct sim_module *module, const char *name,
                             CUdeviceptr *out, size_t *bytes) GS_MUST_USE;

/* The module of a library in a context, made at first use; with a reference. */
CUresult sim_library_module(struct sim_module *library, struct sim_context *context,
                            struct sim_module **out) GS_MUST_USE;

/* A CUfunction, or a CUkernel given as one; with a reference, NULL if neither. */
struct sim_function *sim_function_get(CUfunction handle) GS_MUST_USE;

static inline struct sim_module *sim_module_get(const void *handle, enum sim_type type)
{
    return (struct sim_module *)sim_handle_get(handle, type);
}

static inline void sim_module_put(struct sim_module *module)
{
    sim_object_unref(&module->object);
}

static inline void sim_function_put(struct sim_function *function)
{
    sim_object_unref(&function->object);
}

#endif

/*
 * module.c - modules and libraries and their functions.
 * Owns:  these.   Lock: module->lock.
 * Source: Driver API, "Module Management", "Library Management".
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "memory.h"
#include "order.h"

static void destroy_function(struct sim_object *object)
{
    struct sim_function *function = (struct sim_function *)object;

    free(function->name);
    free(function->settings);
    free(function);
}

static void destroy_module(struct sim_object *object)
{
    struct sim_module *module = (struct sim_module *)object;

    sim_module_end_functions(module);
    pthread_mutex_destroy(&module->lock);
    sim_image_unref(module->image);
    if (module->context)
        sim_context_put(module->context);
    free(module);
}

struct sim_module *sim_module_new(enum sim_type type, struct sim_image *image,
                                  struct sim_context *context)
{
    struct sim_module *module = calloc(1, sizeof(*module));

    if (!module) {
        sim_image_unref(image);
        return NULL;
    }
    sim_object_init(&module->object, type, destroy_module);
    pthread_mutex_init(&module->lock, NULL);
    module->image = image;
    module->context = context;
    if (context) {
        sim_object_ref(&context->object);
        module->context_id = sim_context_id(context);
    }
    return module;
}

static void end_globals(struct sim_global *global)
{
    while (global) {
        struct sim_global *next = global->next;
        bool freed = sim_heap_free(global->memory);
        (void)freed; /* false: the context's end was first */
        sim_memory_unref(global->memory);
        free(global);
        global = next;
    }
}

void sim_module_end_functions(struct sim_module *module)
{
    pthread_mutex_lock(&module->lock);
    struct sim_function *function = module->functions;
    struct sim_global *globals = module->globals;
    module->functions = NULL;
    module->globals = NULL;
    pthread_mutex_unlock(&module->lock);
    end_globals(globals);
    while (function) {
        struct sim_function *next = function->next;
        struct sim_object *closed =
            sim_handle_close(function->object.handle, function->object.type);
        if (closed)
            sim_object_unref(closed);
        sim_function_put(function);
        function = next;
    }
}

static bool has_name(const struct sim_image *image, const char *name)
{
    for (size_t i = 0; i < image->count; i++) {
        if (strcmp(image->names[i], name) == 0)
            return true;
    }
    return image->any_name;
}

static struct sim_function *new_function(struct sim_module *module, enum sim_type type,
                                         const char *name)
{
    struct sim_function *function = calloc(1, sizeof(*function));

    if (!function)
        return NULL;
    sim_object_init(&function->object, type, destroy_function);
    function->owner_handle = module->object.handle;
    function->context = module->context;
    function->context_id = module->context_id;
    function->target = module->image->target;
    atomic_init(&function->shared_bytes, 48 * 1024);
    function->name = strdup(name);
    function->kernel = module->image->any_name ? NULL : sim_kernel_find(name);
    if (!function->name || !sim_handle_open(&function->object)) {
        sim_function_put(function);
        return NULL;
    }
    return function;
}

CUresult sim_module_function(struct sim_module *module, enum sim_type type,
                             const char *name, struct sim_function **out)
{
    if (!has_name(module->image, name))
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&module->lock);
    struct sim_function *function = module->functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    if (!function) {
        function = new_function(module, type, name);
        if (function) {
            function->next = module->functions;
            module->functions = function;
        }
    }
    if (function)
        sim_object_ref(&function->object);
    pthread_mutex_unlock(&module->lock);
    *out = function;
    return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static const struct sim_variable *find_variable(const struct sim_image *image,
                                                const char *name)
{
    for (size_t i = 0; i < image->variable_count; i++) {
        if (strcmp(image->variables[i].name, name) == 0)
            return &image->variables[i];
    }
    return NULL;
}

/* A module's variable with fresh memory, NULL without memory. Needs the module's lock. */
static struct sim_global *new_global(struct sim_module *module,
                                     const struct sim_variable *variable)
{
    const struct sim_allocation allocation = {SIM_MEMORY_DEVICE, module->context,
                                              module->context_id};
    struct sim_global *global = calloc(1, sizeof(*global));

    if (!global)
        return NULL;
    if (sim_heap_alloc(&module->context->heap, variable->bytes, true, &allocation,
                       &global->memory) != CUDA_SUCCESS) {
        free(global);
        return NULL;
    }
    global->memory->of_module = true;
    memset(sim_memory_alias(global->memory, global->memory->base), 0, variable->bytes);
    sim_order_handed_out(global->memory, NULL);
    global->variable = variable;
    global->next = module->globals;
    module->globals = global;
    return global;
}

CUresult sim_module_variable(struct sim_module *module, const char *name,
                             CUdeviceptr *out, size_t *bytes)
{
    const struct sim_variable *variable = find_variable(module->image, name);

    if (!variable || !module->context)
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&module->lock);
    struct sim_global *global = module->globals;
    while (global && global->variable != variable)
        global = global->next;
    if (!global)
        global = new_global(module, variable);
    pthread_mutex_unlock(&module->lock);
    if (!global)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (out)
        *out = global->memory->base;
    if (bytes)
        *bytes = variable->bytes;
    return CUDA_SUCCESS;
}

/* The library's module in that life of the context, with a reference. Needs its lock. */
static struct sim_module *find_module(struct sim_module *library,
                                      const struct sim_context *context,
                                      uint64_t context_id)
{
    struct sim_module *module = library->modules;

    while (module && (module->context != context || module->context_id != context_id))
        module = module->next;
    if (module)
        sim_object_ref(&module->object);
    return module;
}

CUresult sim_library_module(struct sim_module *library, struct sim_context *context,
                            struct sim_module **out)
{
    pthread_mutex_lock(&library->lock);
    struct sim_module *module = find_module(library, context, sim_context_id(context));
    bool fresh = !module;
    if (fresh) {
        sim_image_ref(library->image);
        module = sim_module_new(SIM_TYPE_MODULE, library->image, context);
        if (module && !sim_handle_open(&module->object)) {
            sim_module_put(module);
            module = NULL;
        }
        if (module) {
            module->library = library;
            sim_object_ref(&module->object); /* the list's */
            module->next = library->modules;
            library->modules = module;
        }
    }
    pthread_mutex_unlock(&library->lock);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (fresh)
        sim_context_adopt(context, &module->object);
    *out = module;
    return CUDA_SUCCESS;
}

struct sim_function *sim_function_get(CUfunction handle)
{
    struct sim_object *object = sim_handle_get(handle, SIM_TYPE_FUNCTION);

    if (!object)
        object = sim_handle_get(handle, SIM_TYPE_KERNEL);
    return (struct sim_function *)object;
}

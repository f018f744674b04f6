/*
 * http_library.c - see http_library.h.
 * Owns: gs_http, immutable once it is loaded.   Lock: none.
 */
#include "shim/tools/server/server.h"

#if GS_HAVE_MICROHTTPD

#include <dlfcn.h>
#include <stdio.h>

#include "shim/tools/server/http_library.h"

struct gs_http_library gs_http;

static const char *const names[] = {
#define GS_HTTP_FUNCTION(name) "MHD_" #name,
#include "shim/tools/server/http_library.def"
};

const char *gs_http_library_load(void)
{
    void *functions[GS_ARRAY_LEN(names)];
    void *library = dlopen(GS_HTTP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    static_assert(sizeof(functions) == sizeof(gs_http), "a pointer for each name");
    if (!library) {
        return "serve needs " GS_HTTP_LIBRARY
               ", which is not installed: in Debian and Ubuntu the package "
               "libmicrohttpd12 or libmicrohttpd12t64";
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (!(functions[i] = dlsym(library, names[i]))) {
            return "serve needs a newer " GS_HTTP_LIBRARY;
        }
    }
    memcpy(&gs_http, functions, sizeof(gs_http));
    return NULL;
}

const char *gs_server_prepare(void)
{
    return gs_http_library_load();
}

#else

const char *gs_server_prepare(void)
{
    return "serve is missing: this gpushim was built without libmicrohttpd's header "
           "(package libmicrohttpd-dev)";
}

const char *gs_server_run(struct gs_listen *listen,
                          const struct gs_server_settings *settings)
{
    (void)listen;
    (void)settings;
    return gs_server_prepare();
}

#endif

/*
 * routes.h - the shim's answers to dlsym and dlvsym.   Lock: none.
 */
#ifndef GS_ROUTES_H
#define GS_ROUTES_H

/*
 * The action of the assembly in jump.S: with `jump` set it restores the arguments and
 * jumps there, as if the shim were not present; otherwise it returns `value`.
 */
struct gs_route {
    void *value;
    void *jump;
};

struct gs_route gs_route_dlsym(void *handle, const char *name, const void *caller);
struct gs_route gs_route_dlvsym(void *handle, const char *name, const char *version,
                                const void *caller);

#endif

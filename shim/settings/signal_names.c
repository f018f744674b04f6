/*
 * signal_names.c - see signal_names.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/settings/signal_names.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gs_base.h"

/* The signals that a program leaves at their default and that a person may send. */
static const struct {
    const char *name;
    int number;
} names[] = {{"HUP", SIGHUP},      {"QUIT", SIGQUIT},   {"USR1", SIGUSR1},
             {"USR2", SIGUSR2},    {"URG", SIGURG},     {"IO", SIGIO},
             {"PWR", SIGPWR},      {"WINCH", SIGWINCH}, {"XCPU", SIGXCPU},
             {"VTALRM", SIGVTALRM}};

int gs_signal_named(const char *text)
{
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    char *end = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (strcasecmp(names[i].name, name) == 0) {
            return names[i].number;
        }
    }
    bool real_time = strncasecmp(name, "RTMIN", 5) == 0;
    const char *digits = real_time ? name + 5 : name;
    if (real_time && *digits == '\0') {
        return SIGRTMIN;
    }
    long number = strtol(digits, &end, 10);
    if (end == digits || *end != '\0' || number < 0) {
        return 0;
    }
    number += real_time ? SIGRTMIN : 0;
    if (number >= SIGRTMIN && number <= SIGRTMAX) {
        return (int)number;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names) && !real_time; i++) {
        if (names[i].number == number) {
            return (int)number;
        }
    }
    return 0;
}

const char *gs_signal_name(int number, char out[24])
{
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (names[i].number == number) {
            (void)snprintf(out, 24, "SIG%s", names[i].name);
            return out;
        }
    }
    (void)snprintf(out, 24, "SIGRTMIN+%d", number - SIGRTMIN);
    return out;
}

/*
 * log.c - lines on stderr and in the look-up log.
 * Owns:  the descriptor of the look-up log.   Lock: lookups_once, immutable afterwards.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static int lookups_fd = -1; /* lookups_once; never closed */
static pthread_once_t lookups_once = PTHREAD_ONCE_INIT;

static void write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(fd, text, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        text += done;
        bytes -= (size_t)done;
    }
}

static void write_line(const char *format, va_list args)
{
    int saved = errno;
    char line[512] = "cudasim: ";
    size_t used = strlen(line);
    int more = vsnprintf(line + used, sizeof(line) - used - 1, format, args);

    if (more > 0)
        used += (size_t)more;
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2;
    line[used++] = '\n';
    write_all(STDERR_FILENO, line, used);
    errno = saved;
}

void sim_log_always(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void sim_log(int level, const char *format, ...)
{
    va_list args;

    if (sim_config()->log_level < level)
        return;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

static void open_lookups(void)
{
    const char *path = sim_config()->lookups_path;

    lookups_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (lookups_fd < 0)
        sim_log_always("cannot write CUDASIM_LOG_LOOKUPS=%s: %s", path, strerror(errno));
}

void sim_log_lookup(const char *name, int version, unsigned long long flags,
                    const char *symbol)
{
    int saved = errno;
    char line[512];

    if (!sim_config()->lookups_path)
        return;
    pthread_once(&lookups_once, open_lookups);
    int used =
        snprintf(line, sizeof(line), "%s %d %llu -> %s\n", name, version, flags, symbol);
    if (lookups_fd >= 0 && used > 0 && (size_t)used < sizeof(line))
        write_all(lookups_fd, line, (size_t)used);
    errno = saved;
}

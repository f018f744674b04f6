/*
 * terminal.c - see terminal.h.
 *
 * Whatever ends the launcher, the terminal gets its own screen and settings back: at
 * exit, at signals, and at a fault. Only write and tcsetattr run in a signal handler.
 *
 * Owns: the terminal's settings from gs_terminal_begin to gs_terminal_end.
 * Lock: none; one thread, and its signal handlers.
 */
#include "shim/tools/launcher/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "gs_printable.h"

/* The other screen, no cursor, and long lines cut instead of continued; and back. */
#define BEGIN   "\033[?1049h\033[?25l\033[?7l"
#define END     "\033[?7h\033[?25h\033[?1049l"
#define REVERSE "\033[7m"
#define PLAIN   "\033[0m"

static struct termios before;
static volatile sig_atomic_t taken, resized, ended_by, stopped;

static bool put(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

void gs_terminal_end(void)
{
    if (taken) {
        taken = 0;
        (void)put(END, strlen(END));
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
}

/* ---- signals ----------------------------------------------------------------------- */

static void on_end(int signal)
{
    ended_by = signal;
}

static void on_resize(int signal)
{
    (void)signal;
    resized = 1;
}

static void on_stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* Ends as without a handler, which has been removed by then (SA_RESETHAND). */
static void on_fault(int signal)
{
    gs_terminal_end();
    (void)raise(signal);
}

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal, &action, NULL);
}

static void set_handlers(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < GS_ARRAY_LEN(ends); i++) {
        handle(ends[i], on_end, 0);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(faults); i++) {
        handle(faults[i], on_fault, (int)SA_RESETHAND);
    }
    handle(SIGWINCH, on_resize, 0);
    handle(SIGTSTP, on_stop, 0);
}

/* ---- the screen -------------------------------------------------------------------- */

bool gs_terminal_has_screen(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal && terminal[0] &&
           strcmp(terminal, "dumb") != 0;
}

static bool take(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    taken = 1;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0 || !put(BEGIN, strlen(BEGIN))) {
        gs_terminal_end();
        return false;
    }
    return true;
}

bool gs_terminal_begin(void)
{
    static bool registered;
    if (tcgetattr(STDIN_FILENO, &before) != 0) {
        return false;
    }
    set_handlers();
    if (!registered) {
        registered = true;
        (void)atexit(gs_terminal_end);
    }
    return take();
}

/* Releases the terminal while the launcher is stopped. */
static void stop(void)
{
    stopped = 0;
    gs_terminal_end();
    handle(SIGTSTP, SIG_DFL, 0);
    (void)raise(SIGTSTP); /* goes on at SIGCONT */
    handle(SIGTSTP, on_stop, 0);
    (void)tcgetattr(STDIN_FILENO, &before);
    (void)take();
}

void gs_terminal_size(unsigned *lines, unsigned *columns)
{
    struct winsize size = {.ws_row = 0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *lines = size.ws_row ? size.ws_row : 24;
    *columns = size.ws_col ? size.ws_col : 80;
}

int gs_terminal_signal(void)
{
    return ended_by;
}

/* ---- keys -------------------------------------------------------------------------- */

/* Returns whether input is there within a time. */
static bool wait_input(unsigned timeout_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, (int)timeout_ms) > 0;
}

/* Bytes of a sequence come at once: what comes later is another key. */
#define SEQUENCE_MS 25

static int take_byte(unsigned timeout_ms)
{
    unsigned char byte;
    return wait_input(timeout_ms) && read(STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

/* The key of a sequence whose escape has been read. */
static int take_sequence(void)
{
    static const struct {
        int byte, key;
    } finals[] = {{'A', GS_KEY_UP},   {'B', GS_KEY_DOWN}, {'C', GS_KEY_RIGHT},
                  {'D', GS_KEY_LEFT}, {'H', GS_KEY_HOME}, {'F', GS_KEY_LAST}},
      numbers[] = {{'1', GS_KEY_HOME}, {'7', GS_KEY_HOME},    {'4', GS_KEY_LAST},
                   {'8', GS_KEY_LAST}, {'5', GS_KEY_PAGE_UP}, {'6', GS_KEY_PAGE_DOWN}};
    int first = take_byte(SEQUENCE_MS), parameter = 0, final;
    if (first < 0) {
        return GS_KEY_ESCAPE;
    }
    if (first != '[' && first != 'O') {
        return GS_KEY_NONE;
    }
    while ((final = take_byte(SEQUENCE_MS)) >= 0 && final < '@') {
        parameter = parameter ? parameter : final;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(finals); i++) {
        if (finals[i].byte == final) {
            return finals[i].key;
        }
        if (final == '~' && numbers[i].byte == parameter) {
            return numbers[i].key;
        }
    }
    return GS_KEY_NONE;
}

int gs_terminal_key(unsigned timeout_ms)
{
    if (stopped) {
        stop();
        return GS_KEY_NONE;
    }
    if (ended_by) {
        return GS_KEY_END_ALL;
    }
    if (resized || !wait_input(timeout_ms)) {
        resized = 0;
        return ended_by ? GS_KEY_END_ALL : GS_KEY_NONE;
    }
    int byte = take_byte(0);
    switch (byte) {
    case -1: /* hung up */
        return GS_KEY_END_ALL;
    case '\033':
        return take_sequence();
    case '\r':
    case '\n':
        return GS_KEY_ENTER;
    case '\b':
    case 0x7f:
        return GS_KEY_BACKSPACE;
    default:
        return byte;
    }
}

/* ---- drawing ----------------------------------------------------------------------- */

/* The bytes of a line that columns have room for. */
static size_t fit(const char *line, size_t length, unsigned columns)
{
    size_t at = 0;
    for (unsigned i = 0; i < columns && at < length; i++) {
        size_t bytes = gs_utf8_length(line + at);
        at += bytes ? bytes : 1;
    }
    return at < length ? at : length;
}

bool gs_terminal_draw(const struct gs_text *text, unsigned head, unsigned marked)
{
    struct gs_text out = {0};
    unsigned lines, columns;
    const char *at = text->data ? text->data : "";
    gs_terminal_size(&lines, &columns);
    gs_text_add_bytes(&out, "\033[H", 3);
    for (unsigned i = 0; i < lines; i++) {
        size_t length = strcspn(at, "\n");
        bool reverse = i == head || i == marked;
        if (reverse) {
            gs_text_add_bytes(&out, REVERSE, strlen(REVERSE));
        }
        gs_text_add_bytes(&out, at, fit(at, length, columns));
        gs_text_add_bytes(&out, "\033[K", 3);
        if (reverse) {
            gs_text_add_bytes(&out, PLAIN, strlen(PLAIN));
        }
        if (i + 1 < lines) {
            gs_text_add_bytes(&out, "\r\n", 2);
        }
        at += length + (at[length] == '\n');
    }
    bool drawn = out.data && put(out.data, out.length);
    gs_text_free(&out);
    return drawn;
}

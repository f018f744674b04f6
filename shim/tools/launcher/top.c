/*
 * top.c - gpushim top: what running processes have, by their state files, refreshed.
 *
 * On a terminal a screen with keys; elsewhere, and with --once, plain text.
 *
 * Owns: nothing.   Lock: none; one thread.   Design: docs/state.md
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/coverage.h"
#include "shim/settings/output.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/terminal.h"
#include "shim/tools/reader/state_open.h"
#include "shim/tools/reader/top_text.h"

#define MS_NS         UINT64_C(1000000)
#define DELAY_MS      1000
#define DELAY_MS_MIN  100
#define DELAY_MS_MOST (24 * 60 * 60 * 1000)
/* Between the two readings that a rate needs. */
#define ONCE_MS 300
/* Call sites are read whole: for a twentieth of the time at most. */
#define PLACES_SHARE 20
/* Waits are this long at most: a signal just before one is seen late. */
#define WAIT_MS 250

/* ---- arguments --------------------------------------------------------------------- */

static unsigned read_delay(const char *text)
{
    char *end;
    double seconds = text ? strtod(text, &end) : DELAY_MS / 1000.0;
    if (text && (*end || end == text || !(seconds * 1000 >= DELAY_MS_MIN) ||
                 !(seconds * 1000 <= DELAY_MS_MOST))) {
        gs_launcher_fail(GS_EXIT_USAGE, "-d %s: not a number of seconds of at least 0.1",
                         text);
    }
    return (unsigned)(seconds * 1000 + 0.5);
}

/* 0: no end. */
static unsigned long read_rounds(const struct gs_arguments *arguments)
{
    const char *text = arguments->rounds;
    char *end;
    unsigned long rounds = text ? strtoul(text, &end, 10) : 0;
    if (text && (text[0] < '0' || text[0] > '9' || *end || rounds == 0)) {
        gs_launcher_fail(GS_EXIT_USAGE, "-n %s: not a number of refreshes of at least 1",
                         text);
    }
    return arguments->once ? 1 : rounds;
}

/* The folder of GPUSHIM_STATE_FILE, else the working directory. Returns `out`. */
static char *default_folder(char out[4096])
{
    const char *pattern = getenv("GPUSHIM_STATE_FILE");
    const char *slash = pattern ? strrchr(pattern, '/') : NULL;
    size_t length = slash ? (size_t)(slash - pattern) : 0;
    if (!slash || length >= 4096 || memchr(pattern, '%', length)) {
        return strcpy(out, ".");
    }
    memcpy(out, pattern, length);
    strcpy(out + length, length ? "" : "/");
    return out;
}

/* ---- plain text -------------------------------------------------------------------- */

static void nap(unsigned ms)
{
    (void)poll(NULL, 0, (int)ms);
}

/* Says what could not be read, unless that was the last line already. */
static void say_problem(const struct gs_top_list *list)
{
    static char said[2 * PATH_MAX];
    struct gs_text text = {0};
    gs_top_write_problem(list, &text);
    if (text.data) {
        text.data[strcspn(text.data, "\n")] = '\0';
        if (strncmp(said, text.data, sizeof(said) - 1) != 0) {
            gs_launcher_warn("%s", text.data);
        }
        (void)snprintf(said, sizeof(said), "%s", text.data);
        gs_text_free(&text);
    }
}

static bool print(struct gs_top_list *list)
{
    struct gs_text text = {0};
    gs_top_write_head(list, &text);
    if (list->count == 0) {
        gs_top_write_hint(list, &text);
    } else {
        gs_top_write_devices(list, &text);
        gs_top_write_columns(UINT_MAX, &text);
    }
    for (size_t i = 0; i < list->count; i++) {
        gs_top_write_row(&list->rows[i], UINT_MAX, &text);
    }
    bool written = text.data && fwrite(text.data, 1, text.length, stdout) == text.length;
    gs_text_free(&text);
    say_problem(list);
    return written && fflush(stdout) == 0;
}

/* Returns the exit status. */
static int show_plain(struct gs_top_list *list, unsigned delay_ms, unsigned long rounds)
{
    gs_top_list_read(list);
    nap(delay_ms < ONCE_MS ? delay_ms : ONCE_MS);
    for (unsigned long i = 0; rounds == 0 || i < rounds; i++) {
        if (i > 0) {
            nap(delay_ms);
            putchar('\n');
        }
        gs_top_list_read(list);
        if (!print(list)) {
            gs_launcher_warn("standard output cannot be written: %s",
                             gs_output_error_text(errno));
            return 1;
        }
    }
    return (list->count == 0 && list->unread > 0) || list->cut > 0 ? 1 : 0;
}

/* ---- the screen -------------------------------------------------------------------- */

enum page { PAGE_LIST, PAGE_PLACES, PAGE_SCOPES, PAGE_HELP };

struct screen {
    struct gs_top_list *list;
    enum page page;
    bool edits; /* the filter */
    bool ends;
    size_t chosen, first; /* rows: the chosen one, and the first on the screen */
    /* The chosen row, wherever it goes. */
    const struct gs_top_file *file;
    unsigned device;
    unsigned lines, columns;
    struct gs_text places; /* of the other pages */
    size_t scrolled;       /* lines of it above the screen */
    char path[4096];
    uint64_t next_ns; /* when it is read again */
};

static size_t count_lines(const struct gs_text *text)
{
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++) {
        count += text->data[i] == '\n';
    }
    return count;
}

/* Finds the chosen row again after the rows have changed. */
static void follow(struct screen *screen)
{
    const struct gs_top_list *list = screen->list;
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i].file == screen->file &&
            list->rows[i].memory->device == screen->device) {
            screen->chosen = i;
            return;
        }
    }
    if (screen->chosen >= list->count) {
        screen->chosen = list->count ? list->count - 1 : 0;
    }
}

static void choose(struct screen *screen, size_t row)
{
    const struct gs_top_list *list = screen->list;
    if (list->count == 0) {
        return;
    }
    screen->chosen = row < list->count ? row : list->count - 1;
    screen->file = list->rows[screen->chosen].file;
    screen->device = list->rows[screen->chosen].memory->device;
}

/* Lines of the screen for rows: without head, columns and the last line. */
static size_t room(const struct screen *screen)
{
    size_t others = screen->list->unread + screen->list->others > 0 ? 5 : 4;
    return screen->lines > others ? screen->lines - others : 1;
}

static void write_list(struct screen *screen, struct gs_text *text, unsigned *marked)
{
    struct gs_top_list *list = screen->list;
    size_t rows = room(screen);
    if (screen->chosen < screen->first) {
        screen->first = screen->chosen;
    }
    if (screen->chosen >= screen->first + rows) {
        screen->first = screen->chosen - rows + 1;
    }
    if (screen->first + rows > list->count) {
        screen->first = list->count > rows ? list->count - rows : 0;
    }
    gs_top_write_head(list, text);
    gs_top_write_devices(list, text);
    gs_top_write_columns(screen->columns, text);
    for (size_t i = screen->first; i < screen->first + rows; i++) {
        if (i < list->count) {
            gs_top_write_row(&list->rows[i], screen->columns, text);
        } else if (i == 0) {
            if (list->filter[0] || rows < 2) {
                gs_text_add(text, list->filter[0] ? "  no process matches the filter\n"
                                                  : "  no process runs\n");
            } else {
                gs_top_write_hint(list, text);
                i++;
            }
        } else {
            gs_text_add(text, "\n");
        }
    }
    if (list->count > 0) {
        *marked = (unsigned)(3 + screen->chosen - screen->first);
    }
    gs_top_write_problem(list, text);
    if (screen->edits) {
        gs_text_add(text, "filter: %s_", list->filter);
    } else {
        gs_text_add(text,
                    "h help  q quit  Enter stacks  m scopes  / filter  s sort: %s%s",
                    gs_top_sort_names[list->sort], list->reversed ? ", reversed" : "");
    }
}

/* A text that is longer than the screen. */
static void write_long(struct screen *screen, struct gs_text *text)
{
    size_t count = count_lines(&screen->places), rows = screen->lines - 1, skip;
    const char *at = screen->places.data ? screen->places.data : "";
    if (screen->scrolled + rows > count) {
        screen->scrolled = count > rows ? count - rows : 0;
    }
    for (skip = screen->scrolled; skip > 0; skip--) {
        at += strcspn(at, "\n") + 1;
    }
    for (size_t i = 0; i < rows; i++) {
        size_t length = strcspn(at, "\n");
        gs_text_add_bytes(text, at, length);
        gs_text_add_bytes(text, "\n", 1);
        at += length + (at[length] == '\n');
    }
    gs_text_add(text, "q back  up, down scroll");
    if (count > rows) {
        gs_text_add(text, "  lines %zu to %zu of %zu", screen->scrolled + 1,
                    screen->scrolled + rows, count);
    }
}

static void draw(struct screen *screen)
{
    struct gs_text text = {0};
    unsigned head = 0, marked = UINT32_MAX;
    gs_terminal_size(&screen->lines, &screen->columns);
    if (screen->page == PAGE_LIST) {
        head = 2;
        write_list(screen, &text, &marked);
    } else {
        write_long(screen, &text);
    }
    screen->ends |= !gs_terminal_draw(&text, head, marked);
    gs_text_free(&text);
}

static void read_places(struct screen *screen)
{
    uint64_t begin_ns = gs_now_ns(), end_ns;
    gs_text_free(&screen->places);
    if (screen->page == PAGE_SCOPES) {
        gs_top_write_scopes(screen->path, &screen->places);
    } else {
        gs_top_write_places(screen->path, &screen->places);
    }
    end_ns = gs_now_ns();
    screen->next_ns = end_ns + (end_ns - begin_ns) * PLACES_SHARE;
}

/* Opens a page of the chosen process. */
static void open_process(struct screen *screen, enum page page)
{
    const struct gs_top_list *list = screen->list;
    if (screen->chosen < list->count) {
        (void)snprintf(screen->path, sizeof(screen->path), "%s",
                       gs_top_list_path(&list->rows[screen->chosen]));
        screen->page = page;
        screen->scrolled = 0;
        read_places(screen);
    }
}

static void open_help(struct screen *screen)
{
    screen->page = PAGE_HELP;
    screen->scrolled = 0;
    gs_text_free(&screen->places);
    gs_top_write_help(&screen->places);
}

/* ---- keys -------------------------------------------------------------------------- */

static void edit_key(struct screen *screen, int key)
{
    char *filter = screen->list->filter;
    size_t length = strlen(filter);
    if (key == GS_KEY_ENTER) {
        screen->edits = false;
    } else if (key == GS_KEY_ESCAPE) {
        screen->edits = false;
        filter[0] = '\0';
    } else if (key == GS_KEY_BACKSPACE && length > 0) {
        do {
            filter[--length] = '\0';
        } while (length > 0 && ((unsigned char)filter[length] & 0xc0) == 0x80);
    } else if (key >= ' ' && key < 256 && length + 1 < GS_TOP_FILTER_BYTES) {
        filter[length] = (char)key;
        filter[length + 1] = '\0';
    }
    gs_top_list_arrange(screen->list);
    follow(screen);
}

static void sort_key(struct screen *screen, unsigned step)
{
    struct gs_top_list *list = screen->list;
    list->sort = (enum gs_top_sort)((list->sort + step) % GS_TOP_SORTS);
    gs_top_list_arrange(list);
    follow(screen);
}

static void list_key(struct screen *screen, int key)
{
    struct gs_top_list *list = screen->list;
    size_t page = room(screen);
    switch (key) {
    case 'q':
        screen->ends = true;
        break;
    case 's':
        sort_key(screen, 1);
        break;
    case 'S':
        sort_key(screen, GS_TOP_SORTS - 1);
        break;
    case 'r':
        list->reversed = !list->reversed;
        sort_key(screen, 0);
        break;
    case '/':
        screen->edits = true;
        break;
    case 'h':
    case '?':
        open_help(screen);
        break;
    case GS_KEY_ESCAPE:
        list->filter[0] = '\0';
        sort_key(screen, 0);
        break;
    case GS_KEY_ENTER:
    case GS_KEY_RIGHT:
        open_process(screen, PAGE_PLACES);
        break;
    case 'm':
        open_process(screen, PAGE_SCOPES);
        break;
    case 'k':
    case GS_KEY_UP:
        choose(screen, screen->chosen ? screen->chosen - 1 : 0);
        break;
    case 'j':
    case GS_KEY_DOWN:
        choose(screen, screen->chosen + 1);
        break;
    case GS_KEY_PAGE_UP:
        choose(screen, screen->chosen > page ? screen->chosen - page : 0);
        break;
    case GS_KEY_PAGE_DOWN:
        choose(screen, screen->chosen + page);
        break;
    case GS_KEY_HOME:
        choose(screen, 0);
        break;
    case GS_KEY_LAST:
        choose(screen, SIZE_MAX);
        break;
    default:
        break;
    }
}

static void long_key(struct screen *screen, int key)
{
    size_t page = screen->lines > 2 ? screen->lines - 2 : 1;
    switch (key) {
    case 'q':
    case 'h':
    case '?':
    case GS_KEY_ESCAPE:
    case GS_KEY_LEFT:
    case GS_KEY_ENTER:
    case 'm':
        screen->page = PAGE_LIST;
        break;
    case 'k':
    case GS_KEY_UP:
        screen->scrolled -= screen->scrolled > 0;
        break;
    case 'j':
    case GS_KEY_DOWN:
        screen->scrolled++;
        break;
    case GS_KEY_PAGE_UP:
        screen->scrolled -= screen->scrolled > page ? page : screen->scrolled;
        break;
    case ' ':
    case GS_KEY_PAGE_DOWN:
        screen->scrolled += page;
        break;
    case GS_KEY_HOME:
        screen->scrolled = 0;
        break;
    case GS_KEY_LAST:
        screen->scrolled = count_lines(&screen->places);
        break;
    default:
        break;
    }
}

/* Takes keys until a time. */
static void take_keys(struct screen *screen, uint64_t until_ns)
{
    for (uint64_t now; !screen->ends && (now = gs_now_ns()) < until_ns;) {
        uint64_t left_ms = (until_ns - now) / MS_NS + 1;
        int key = gs_terminal_key((unsigned)(left_ms < WAIT_MS ? left_ms : WAIT_MS));
        if (key == GS_KEY_END_ALL) {
            screen->ends = true;
        } else if (key == GS_KEY_NONE) {
            unsigned lines, columns;
            gs_terminal_size(&lines, &columns);
            if (lines == screen->lines && columns == screen->columns) {
                continue;
            }
        } else if (screen->edits) {
            edit_key(screen, key);
        } else if (screen->page == PAGE_LIST) {
            list_key(screen, key);
        } else {
            long_key(screen, key);
        }
        if (!screen->ends) {
            draw(screen);
        }
    }
}

/* Returns the exit status; ends as a signal does that ended it. */
static int show_screen(struct gs_top_list *list, unsigned delay_ms, unsigned long rounds)
{
    static struct screen screen;
    uint64_t next_ns = gs_now_ns();
    screen.list = list;
    for (unsigned long i = 0; !screen.ends && (rounds == 0 || i < rounds); i++) {
        gs_top_list_read(list);
        follow(&screen);
        if ((screen.page == PAGE_PLACES || screen.page == PAGE_SCOPES) &&
            gs_now_ns() >= screen.next_ns) {
            read_places(&screen);
        }
        draw(&screen);
        next_ns += delay_ms * MS_NS;
        if (next_ns < gs_now_ns()) { /* it was stopped, or reading takes long */
            next_ns = gs_now_ns() + delay_ms * MS_NS;
        }
        take_keys(&screen, next_ns);
    }
    gs_terminal_end();
    gs_text_free(&screen.places);
    int signal = gs_terminal_signal();
    if (signal) {
        (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        gs_coverage_flush();
        (void)raise(signal);
    }
    return 0;
}

int gs_top_run(const struct gs_arguments *arguments)
{
    static char folder[4096];
    char *here[] = {default_folder(folder), NULL};
    struct gs_top_list list = {.paths = arguments->command[0] ? arguments->command : here,
                               .asks = !arguments->command[0],
                               .quiet =
                                   !arguments->command[0] && strcmp(here[0], ".") == 0};
    unsigned delay_ms = read_delay(arguments->delay);
    unsigned long rounds = read_rounds(arguments);
    bool screen = !arguments->once && gs_terminal_has_screen();
    (void)gs_state_settings(); /* says now what is wrong with them */
    int status;
    if (arguments->command[0] && !gs_paths_any_exists(arguments->command)) {
        return 1;
    }
    if (!isatty(STDOUT_FILENO) && rounds == 0) {
        rounds = 1;
    }
    if (screen && gs_terminal_begin()) {
        status = show_screen(&list, delay_ms, rounds);
    } else {
        status = show_plain(&list, delay_ms, rounds);
    }
    gs_top_list_free(&list);
    return status;
}

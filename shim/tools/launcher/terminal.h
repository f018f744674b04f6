/*
 * terminal.h - a screen for gpushim top: the terminal's other screen, and its keys, by
 * plain escape sequences (ECMA-48, xterm).
 * Locks: none; one thread.
 */
#ifndef GS_TERMINAL_H
#define GS_TERMINAL_H

#include "tracker/report/text/text.h"

enum gs_key {
    GS_KEY_NONE,    /* the time is over, the size has changed, or the key means nothing */
    GS_KEY_END_ALL, /* a signal to end, or no terminal any more */
    GS_KEY_UP = 256,
    GS_KEY_DOWN,
    GS_KEY_LEFT,
    GS_KEY_RIGHT,
    GS_KEY_PAGE_UP,
    GS_KEY_PAGE_DOWN,
    GS_KEY_HOME,
    GS_KEY_LAST,
    GS_KEY_ESCAPE,
    GS_KEY_ENTER,
    GS_KEY_BACKSPACE
    /* else a byte of a character */
};

/* Whether standard input and output are a terminal that has such a screen. */
bool gs_terminal_has_screen(void);
/* Takes the other screen. gs_terminal_end releases it, at exit, and at a signal that ends
 * or stops the launcher. */
bool gs_terminal_begin(void);
void gs_terminal_end(void);

/* The terminal's size; 24 lines of 80 columns if it does not say. */
void gs_terminal_size(unsigned *lines, unsigned *columns);

/* Waits for a key; a byte, or an enum gs_key. */
int gs_terminal_key(unsigned timeout_ms);
/* The signal that ends the launcher; 0: none. */
int gs_terminal_signal(void);

/* Puts the text on the screen, line by line; `marked`: the number of a line in reverse,
 * and `head`: another one. False: the terminal is gone. */
bool gs_terminal_draw(const struct gs_text *text, unsigned head, unsigned marked);

#endif

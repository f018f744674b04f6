/*
 * words.c - words of a command line: each once, or written for a shell.
 *
 * Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <string.h>

#include "gs_printable.h"
#include "shim/tools/launcher/launcher.h"

/* Returns whether a byte is written as a number: a terminal might execute the character
 * that it belongs to. */
static bool is_raw(const char *at)
{
    unsigned char byte = (unsigned char)*at;
    return byte < 0x20 || byte >= 0x7f;
}

/* Returns whether a word has a control character, or a byte that is not UTF-8. Quotes of
 * every shell can contain line feeds and tabs. */
static bool has_raw(const char *word)
{
    for (size_t length; *word; word += length) {
        length = gs_utf8_length(word);
        if (length == 0 ||
            (gs_is_control(word, length) && *word != '\n' && *word != '\t')) {
            return true;
        }
    }
    return false;
}

void gs_words_once(char **words)
{
    size_t kept = 0;
    for (char **word = words; *word; word++) {
        size_t i = 0;
        while (i < kept && strcmp(words[i], *word) != 0) {
            i++;
        }
        if (i == kept) {
            words[kept++] = *word;
        }
    }
    words[kept] = NULL;
}

void gs_words_print(const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_-+=./:,@%";
    if (word[0] && word[strspn(word, safe)] == '\0') {
        fputs(word, stdout);
        return;
    }
    bool raw = has_raw(word);
    fputs(raw ? "$'" : "'", stdout);
    for (; *word; word++) {
        if (raw && is_raw(word)) {
            printf("\\%03o", (unsigned char)*word);
        } else if (*word == '\'' || (raw && *word == '\\')) {
            fputs(raw ? *word == '\'' ? "\\'" : "\\\\" : "'\\''", stdout);
        } else {
            putchar(*word);
        }
    }
    putchar('\'');
}

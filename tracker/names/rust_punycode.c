/*
 * rust_punycode.c - names of Rust with letters beyond ASCII.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/names/rust_punycode.h"

#include <string.h>

size_t gs_rust_punycode(const char *text, size_t length,
                        uint32_t characters[GS_RUST_IDENT_MAX])
{
    size_t count = 0, at = 0, code = 128, i = 0, bias = 72, damp = 700;

    for (size_t k = length; k > 0; k--) {
        if (text[k - 1] == '_') {
            at = k;
            break;
        }
    }
    for (size_t k = 0; at > 0 && k < at - 1 && count < GS_RUST_IDENT_MAX; k++) {
        characters[count++] = (uint8_t)text[k];
    }
    while (at < length && count < GS_RUST_IDENT_MAX) {
        size_t before = i, weight = 1, delta, steps = 0;

        for (size_t k = 36;; k += 36) {
            size_t limit = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
            char c = at < length ? text[at++] : '\0';
            size_t digit = c >= 'a' && c <= 'z'   ? (size_t)(c - 'a')
                           : c >= '0' && c <= '9' ? (size_t)(c - '0') + 26
                                                  : 36;
            if (digit == 36 || i > UINT32_MAX || weight > UINT32_MAX) {
                return 0;
            }
            i += digit * weight;
            if (digit < limit) {
                break;
            }
            weight *= 36 - limit;
        }
        delta = (i - before) / damp;
        damp = 2;
        delta += delta / (count + 1);
        for (; delta > 455; steps++) {
            delta /= 35;
        }
        bias = steps * 36 + 36 * delta / (delta + 38);
        code += i / (count + 1);
        i %= count + 1;
        if (code > 0x10ffff) {
            return 0;
        }
        memmove(characters + i + 1, characters + i, (count - i) * sizeof(*characters));
        characters[i++] = (uint32_t)code;
        count++;
    }
    return count;
}

/*
 * lookup.h - the log of symbol look-ups that went through cuGetProcAddress.
 */
#ifndef GS_LOOKUP_H
#define GS_LOOKUP_H

/* Append one line a look-up to the file of this pattern; "" = no log. */
void gs_lookup_log_open(const char *pattern);

#endif

/*
 * profile.h - changes a profile for pprof that a process has made.
 * Locks: none.   Source: github.com/google/pprof, proto/profile.proto
 */
#ifndef GS_PROFILE_H
#define GS_PROFILE_H

#include "tracker/report/text/text.h"

/* Makes a sample type, "alloc_space", the one that readers show unless they are told
 * otherwise. False: the profile is malformed, or has no such type. */
bool gs_profile_prefer(struct gs_text *profile, const char *type);

#endif

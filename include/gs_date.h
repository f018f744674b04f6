/*
 * gs_date.h - date and time of day of a time in UTC.
 *
 * Computed here, since gmtime_r takes the lock of the time zone data.
 *
 * Locks: none. Async-signal-safe.
 */
#ifndef GS_DATE_H
#define GS_DATE_H

#include <stdint.h>

struct gs_date {
    unsigned year, month, day; /* month and day from 1 */
    unsigned hour, minute, second;
};

/* In:  seconds  since 1970, in UTC, not negative
 * The calendar repeats every 400 years of 146097 days; years are counted from March, so
 * that the leap day is a year's last. */
static inline struct gs_date gs_date_of(int64_t seconds)
{
    uint64_t rest = (uint64_t)seconds % 86400;
    uint64_t days = (uint64_t)seconds / 86400 + 719468; /* since 0000-03-01 */
    uint64_t era = days / 146097;
    uint64_t day = days % 146097;
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    uint64_t year_day = day - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * year_day + 2) / 153; /* 0 is March */

    return (struct gs_date){
        .year = (unsigned)(era * 400 + year + (month >= 10)),
        .month = (unsigned)(month < 10 ? month + 3 : month - 9),
        .day = (unsigned)(year_day - (153 * month + 2) / 5 + 1),
        .hour = (unsigned)(rest / 3600),
        .minute = (unsigned)(rest / 60 % 60),
        .second = (unsigned)(rest % 60),
    };
}

#endif

/*
 * export_json_devices.h - members of a report's JSON that are of devices.
 * Locks: none, one thread writes a report.
 */
#ifndef GS_EXPORT_JSON_DEVICES_H
#define GS_EXPORT_JSON_DEVICES_H

#include "export_internal.h"
#include "export_json_values.h"

/* "devices", and a member for each row that is no device's. */
void gs_json_devices(const struct gs_export *export, struct gs_json *json);
/* "units", of all counters in these. */
void gs_json_units(const struct gs_export *export, struct gs_json *json);
/* The name of the member of a row from GS_ROW_PINNED on. */
const char *gs_json_apart(unsigned row);

#endif

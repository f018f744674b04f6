/*
 * export_json_devices.h - the members of a report's JSON that describe devices.
 * Locks: none, one thread writes a report.
 */
#ifndef GS_EXPORT_JSON_DEVICES_H
#define GS_EXPORT_JSON_DEVICES_H

#include "tracker/report/export_internal.h"
#include "tracker/report/files/export_json_values.h"

/* "devices", and a member for each row apart from the devices. */
void gs_json_devices(const struct gs_export *export, struct gs_json *json);
/* "units" of all counters in these members. */
void gs_json_units(const struct gs_export *export, struct gs_json *json);

#endif

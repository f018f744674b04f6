/*
 * report_proof.c - prints the results of GPUSHIM_FREE_SYNC=verify: each call site whose
 * frees relied on a wrong idle check, and one line on the whole run.
 * Owns: nothing.   Lock: none.   Design: docs/free.md, "Verify"
 */
#include "tracker/report/report_internal.h"

void gs_report_not_idle(const struct gs_report_writer *writer, size_t number,
                        const struct gs_error *error)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, error->freed.stack);
    char duration[24];

    gs_text_add(writer->text, "%sERROR %zu: %s (%s, GPU %d): ", writer->prefix, number,
                gs_report_error_name(error->kind),
                gs_report_call(writer, &stack, error->freed.api), error->device);
    gs_text_duration(error->waited_ns, duration);
    if (error->addr != 0) {
        gs_text_add(writer->text,
                    "stream 0x%llx had work that no counted call submitted; it ran for "
                    "%s more\n",
                    (unsigned long long)error->addr, duration);
    } else {
        gs_text_add(writer->text,
                    "no stream showed work, but the device needed %s to be idle\n",
                    duration);
    }
    gs_report_site(writer, "freed", &error->freed, error->thread_name);
    gs_report_repeats(writer, error);
    gs_report_blank(writer);
}

static void write_last_look_ups(const struct gs_report_writer *writer,
                                const struct gs_report_proof *proof)
{
    char clean[64];

    gs_text_add(writer->text,
                "%s  last look-ups before the first failure:", writer->prefix);
    for (size_t i = 0; i < proof->look_up_count; i++) {
        gs_text_add(writer->text, "%s %s", i == 0 ? "" : ",",
                    gs_report_clean(proof->look_ups[i], clean, sizeof(clean)));
    }
    gs_text_add(writer->text, "%s\n", proof->look_up_count == 0 ? " nothing" : "");
}

void gs_report_proof(const struct gs_report_writer *writer)
{
    const struct gs_report_proof *proof = writer->config->proof;
    char count[32], failures[32], duration[24], clean[64];

    if (!proof) {
        return;
    }
    gs_text_add(writer->text, "%sIdle check: made %s time%s, failed %s", writer->prefix,
                gs_text_count(proof->checked, count), gs_report_plural(proof->checked),
                gs_text_count(proof->violated, failures));
    if (proof->unchecked != 0) {
        gs_text_add(writer->text, ", not checked %s",
                    gs_text_count(proof->unchecked, count));
    }
    gs_text_add(writer->text, ", longest wait %s",
                gs_text_duration(proof->longest_ns, duration));
    if (proof->ended_by[0]) {
        gs_text_add(writer->text, "; ended by %s: each free waited from then on",
                    gs_report_clean(proof->ended_by, clean, sizeof(clean)));
    }
    gs_text_add(writer->text, "\n");
    if (proof->violated != 0) {
        write_last_look_ups(writer, proof);
    }
}

/*
 * control_message.h - how the command gpushim asks a running process: the library listens
 * (control/control.c), the command connects (tools/reader/ask.c).
 *
 * The socket is a Unix stream socket with the abstract name "gpushim/PID/" and
 * GS_CONTROL_SECRET digits, PID as the process itself knows it. The digits are in
 * /proc/net/unix for everyone to read; they only keep another program from taking the
 * name first. Who is at the other end, each side asks the kernel (SO_PEERCRED): the
 * process answers its own user and root, the command believes the process it means.
 *
 * A request is a line, "WORD" or "WORD ARGUMENT". The answer is a line "gpushim ok BYTES"
 * or "gpushim no BYTES", then as many bytes of text: the result, or why there is none.
 */
#ifndef GS_CONTROL_MESSAGE_H
#define GS_CONTROL_MESSAGE_H

#define GS_CONTROL_PREFIX     "gpushim/"
#define GS_CONTROL_SECRET     16
#define GS_CONTROL_NAME_BYTES 64

/* The longest request, with its newline, and first line of an answer. */
#define GS_CONTROL_REQUEST_BYTES 4096
#define GS_CONTROL_HEAD_BYTES    48
/* The most text of an answer that the command takes. */
#define GS_CONTROL_ANSWER_BYTES (256u << 20)

#endif

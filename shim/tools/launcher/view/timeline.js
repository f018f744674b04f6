// timeline.js - the timeline of the page: axes, bands, a moment or a range of time, zoom; and the
// views of the flame graph that follow it. view.js, behind it in the page, starts it.
//
// Moments are numbered by time; the last is the end. A span is memory of a site that is live from one
// moment on until before another. Own code draws axes, range and zoom: a d3 with the same is five times
// the whole script, and has neither ticks of 1,024 bytes and of a run's time, nor keys for a range.
'use strict';

const SERIES = 9; // bands, and one for all others
// The range: moments behind `from`, up to `to`; from -1 is the beginning. Shown are [low, high) of time.
const chart = { memory: null, layers: [], at: 0, from: null, to: null, low: 0, high: 1, dragged: null };

function unpack(text) {
  const bytes = atob(text), numbers = [];
  for (let i = 0; i < bytes.length; i++) {
    let value = 0, scale = 1, byte = 0;
    do {
      byte = bytes.charCodeAt(i);
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127 && ++i < bytes.length);
    numbers.push(value);
  }
  return numbers;
}

function readSpans(text) {
  const numbers = unpack(text), spans = [];
  let site = 0, first = 0;
  for (let i = 0; i + 4 < numbers.length; i += 5) {
    first = numbers[i] === 0 ? first + numbers[i + 1] : numbers[i + 1];
    site += numbers[i];
    spans.push({ site, first, end: first + numbers[i + 2], count: numbers[i + 3], bytes: numbers[i + 4] });
  }
  return spans;
}

// The live bytes of each key at each moment.
function curvesOf(spans, keyOf, moments) {
  const curves = new Map();
  for (const { site, first, end, bytes } of spans) {
    const key = keyOf(site);
    let curve = curves.get(key);
    if (!curve) curves.set(key, (curve = new Array(moments + 1).fill(0)));
    curve[first] += bytes;
    curve[end] -= bytes;
  }
  for (const curve of curves.values()) {
    for (let i = 1; i < moments; i++) curve[i] += curve[i - 1];
    curve.length = moments;
  }
  return curves;
}

function readMemory({ device, times, spans, reserved, segments, segments_all }) {
  const read = readSpans(spans), at = [];
  let time = 0;
  for (const step of unpack(times)) at.push((time += step));
  at.push(timeline.end_ns);
  const live = curvesOf(read, () => 0, at.length).get(0) || at.map(() => 0), most = Math.max(...live), changes = list(reserved);
  const held = [];
  for (let i = 0; i + 1 < changes.length; i += 2) held.push([changes[i] * timeline.reserved_ns, changes[i + 1]]);
  return {
    name: device === null ? 'pinned host memory' : `GPU ${device}`, device, times: at, spans: read, live, most,
    peak: live.indexOf(most), reserved: held, segments: list(segments), unshown: segments_all - list(segments).length,
  };
}

// What a site is called: function and place of the frame that allocates, or a kind and a size.
function siteName(number) {
  const site = timeline.sites[number], top = frames[list(site.stack)[0]];
  if (site.at_least !== undefined)
    return { name: `${site.kind || 'memory'}, ${bytesText(site.at_least)} to ${bytesText(2 * site.at_least)}`, place: '', from: '' };
  return top ? { name: top.name, place: top.place, from: '' } : { name: 'no call stack was recorded', place: '', from: '' };
}

const grouped = (rows, key) => rows.reduce((groups, row) => groups.set(key(row), (groups.get(key(row)) || []).concat(row)), new Map()).values();

// Appends to rows of the same text the first callers, from a level on, in which their stacks differ.
function appendCallers(rows, level) {
  const text = ({ stack }, at) => frames[stack[at]] ? `${frames[stack[at]].name} ${frames[stack[at]].place}` : '';
  const deepest = Math.max(...rows.map(({ stack }) => stack.length));
  while (level < deepest && rows.every((row) => text(row, level) === text(rows[0], level))) level++;
  if (rows.length < 2 || level >= deepest) return;
  for (const row of rows)
    if (text(row, level)) row.layer.from += `${row.layer.from ? ' < ' : 'from '}${text(row, level)}`;
  for (const group of grouped(rows, (row) => text(row, level))) appendCallers(group, level + 1);
}

// Tells rows of the same text apart by their callers.
function tellApart(layers) {
  for (const group of grouped(layers, (layer) => `${layer.name} ${layer.place}`)) {
    const whole = group.map(({ site }) => list(timeline.sites[site]?.stack)), own = whole.map((stack) => stack.filter((number, i) => i === 0 || !frames[number]?.family));
    const differ = (stacks) => stacks.some((stack) => stack.length !== stacks[0].length || stack.some((number, i) => number !== stacks[0][i]));
    const stacks = differ(own) ? own : whole;
    appendCallers(group.map((layer, i) => ({ layer, stack: stacks[i] })), 1);
  }
  return layers;
}

// The bands: the largest by area, and all others.
function makeLayers(memory, by) {
  const owner = (site) => timeline.sites[site].owner ?? '';
  const curves = curvesOf(memory.spans, by === 'owners' ? owner : (site) => site, memory.live.length);
  const area = (live) => live.reduce((sum, bytes) => sum + bytes, 0);
  const sorted = [...curves].map(([key, live]) => ({ key, live, area: area(live) })).sort((a, b) => b.area - a.area);
  const shown = sorted.slice(0, SERIES).map(({ key, live }, index) => ({
    live, color: `t${index}`, site: by === 'owners' ? undefined : key,
    ...(by === 'owners' ? { name: key ? shownPath(key) : 'owner not known', place: '', from: '' } : siteName(key)),
  }));
  const rest = sorted.slice(SERIES);
  if (rest.length > 0)
    shown.push({ name: `${countText(rest.length)} other ${by === 'owners' ? 'owner' : timeline.sites[0].stack ? 'call site' : 'size'}${rest.length > 1 ? 's' : ''}`, place: '', from: '', color: 'others',
      live: memory.live.map((_, i) => rest.reduce((sum, layer) => sum + layer.live[i], 0)) });
  return tellApart(shown);
}

// ---- its flame graph: a moment, or a range

function spansView(title, word, part, keep, note) {
  const sites = new Map(), { memory } = chart;
  for (const span of memory.spans) {
    if (!keep(span)) continue;
    const { stack, kind } = timeline.sites[span.site];
    const sum = sites.get(span.site) || { bytes: 0, count: 0, stack: list(stack), full_stack: list(stack), device: memory.device,
      kind: kind || (memory.device === null ? 'pinned' : 'device'), call: '', fate: '', size: stack ? null : siteName(span.site).name };
    sum.bytes += span.bytes;
    sum.count += span.count;
    sites.set(span.site, sum);
  }
  const rows = [...sites.values()].sort((a, b) => b.bytes - a.bytes);
  return makeView(title, word, part, rows, undefined, note);
}

const timeOf = (moment) => (moment < 0 ? 0 : chart.memory.times[moment]);

function momentView() {
  const { memory, at } = chart, peak = at === memory.peak;
  return spansView(`${peak ? 'Peak' : 'Live'} at ${durationText(timeOf(at))}`, 'LIVE', peak ? 'of the peak' : 'of live',
    ({ first, end }) => first <= at && at < end, `${peak ? 'Peak of' : 'Live of'} ${memory.name} at ${durationText(timeOf(at))}`);
}

function rangeView() {
  const { memory, from, to } = chart, times = `${durationText(timeOf(from))} to ${durationText(timeOf(to))}`;
  return spansView(`Allocated ${times}, not freed`, 'KEPT', 'of what was kept', ({ first, end }) => from < first && first <= to && to < end,
    `Allocated from ${times} and not freed by then, ${memory.name}`);
}

// Shows the moment or the range below, too.
function followTime() {
  const view = chart.from === null ? momentView() : rangeView(), old = views.findIndex((one) => one.isTime);
  view.isTime = true;
  if (old >= 0) views[old] = view;
  else views.push(view);
  state.view = view;
  state.zoomed = null;
  fillViews();
  draw();
}

// ---- drawing

const nice = (least, steps) => steps.find((step) => step >= least) ?? steps[steps.length - 1];
const BYTE_STEPS = Array.from({ length: 63 }, (_, i) => 2 ** i);
const TIME_STEPS = [...Array.from({ length: 33 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3)).filter((ns) => ns <= 1e10),
  ...[15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1e9)];

// "1.25 s": as many digits as the step has.
function tickText(ns, step) {
  if (step >= 6e10 || ns >= 6e10) {
    const s = ns / 1e9, two = (number) => String(Math.floor(number)).padStart(2, '0');
    const rest = step < 1e9 ? (s % 60).toFixed(Math.ceil(9 - Math.log10(step))).padStart(3, '0') : two(s % 60);
    return s >= 3600 ? `${Math.floor(s / 3600)}:${two((s / 60) % 60)}${step < 6e10 ? `:${rest}` : ' h'}` : `${Math.floor(s / 60)}:${rest}`;
  }
  const [unit, name] = chart.high >= 1e9 ? [1e9, 's'] : chart.high >= 1e6 ? [1e6, 'ms'] : [1e3, 'us'];
  return `${(ns / unit).toFixed(Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)))} ${name}`;
}

function shape(name, attributes) {
  const made = document.createElementNS($('areas').namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function label(text, x, y, className) {
  const made = shape('text', { x, y, class: className });
  made.textContent = text;
  return made;
}

const BOX = { left: 66, right: 8, top: 8, bottom: 22, height: 230 };
const boxWidth = () => Math.max(200, $('chart').clientWidth || 1000);
const xOf = (ns) => BOX.left + ((ns - chart.low) / (chart.high - chart.low)) * (boxWidth() - BOX.left - BOX.right);
const timeAt = (x) => chart.low + ((x - BOX.left) / (boxWidth() - BOX.left - BOX.right)) * (chart.high - chart.low);
const within = (value, low, high) => Math.min(Math.max(value, low), high);

// A moment is drawn over its interval, the end at the edge.
const begin = (moment) => moment * timeline.interval_ns;
const momentAt = (ns) => within(Math.floor(ns / timeline.interval_ns), 0, timeline.moments - 1);

// The upper edge of a band over the moments that are shown; steps that are closer than half a pixel keep their highest.
function edge(curve, first, last, y) {
  const points = [], wide = (xOf(begin(first + 1)) - xOf(begin(first))) || 1, join = Math.max(1, Math.floor(0.5 / wide));
  for (let i = first; i <= last; i += join) {
    let most = 0;
    for (let k = i; k <= Math.min(last, i + join - 1); k++) most = Math.max(most, curve[k]);
    const x = within(xOf(begin(i)), BOX.left, boxWidth()).toFixed(1), end = Math.min(xOf(begin(Math.min(last + 1, i + join))), boxWidth() - BOX.right).toFixed(1);
    points.push(`${x},${y(most)}`, `${end},${y(most)}`);
  }
  return points;
}

function reservedPath(y) {
  const points = [];
  let held = 0;
  for (const [ns, bytes] of chart.memory.reserved) {
    const x = xOf(ns);
    if (x > boxWidth() - BOX.right) break;
    if (x >= BOX.left) points.push(`${x.toFixed(1)},${y(held)}`, `${x.toFixed(1)},${y(bytes)}`);
    held = bytes;
    if (x < BOX.left) points.splice(0, points.length, `${BOX.left},${y(held)}`);
  }
  points.push(`${boxWidth() - BOX.right},${y(held)}`);
  return shape('path', { class: 'reserved', d: `M${points.join(' L')}` });
}

const lastShown = () => Math.max(momentAt(chart.low), momentAt(chart.high - 1));

function drawChart() {
  const { memory, layers } = chart, areas = $('areas'), width = boxWidth(), bottom = BOX.height - BOX.bottom;
  const first = momentAt(chart.low), last = lastShown();
  let most = 1, held = 0;
  for (let i = first; i <= last; i++) most = Math.max(most, memory.live[i]);
  for (const [ns, bytes] of memory.reserved) {
    if (ns < chart.high && (ns >= chart.low || bytes > held)) most = Math.max(most, ns >= chart.low ? bytes : 0);
    if (ns < chart.low) held = bytes;
  }
  most = Math.max(most, held);
  const y = (bytes) => (bottom - (bytes / most) * (bottom - BOX.top)).toFixed(1);
  const byteStep = nice(most / 6, BYTE_STEPS), timeStep = nice((chart.high - chart.low) / Math.max(2, width / 130), TIME_STEPS), made = [];
  let below = memory.live.map(() => 0);
  for (const layer of layers) {
    const above = below.map((bytes, i) => bytes + layer.live[i]);
    made.push(shape('path', { class: layer.color,
      d: `M${edge(above, first, last, y).concat(edge(below, first, last, y).reverse()).join(' L')}Z` }));
    below = above;
  }
  const grid = [];
  for (let bytes = 0; bytes <= most; bytes += byteStep)
    grid.push(shape('path', { class: 'grid', d: `M${BOX.left},${y(bytes)}H${width - BOX.right}` }), label(bytesText(bytes).replace(/\.0+ /, ' '), BOX.left - 6, Number(y(bytes)) + 4, 'tick y'));
  for (let ns = Math.ceil(chart.low / timeStep) * timeStep; ns <= chart.high; ns += timeStep)
    grid.push(shape('path', { class: 'grid', d: `M${xOf(ns).toFixed(1)},${bottom}v5` }), label(tickText(ns, timeStep), within(xOf(ns), BOX.left + 12, width - 30).toFixed(1), BOX.height - 4, 'tick x'));
  areas.setAttribute('viewBox', `0 0 ${width} ${BOX.height}`);
  areas.replaceChildren(...made, ...grid, ...(memory.reserved.length ? [reservedPath(y)] : []));
  drawSegments();
  drawMoment();
}

// The pool's segments by address, a row each: how much of one was in use, in five shades.
function drawSegments() {
  const { segments, unshown } = chart.memory, map = $('segments');
  const columns = segments.length ? segments[0].used.length : 1, shades = ['', '', '', '', ''], each = timeline.end_ns / columns;
  segments.forEach(({ used }, y) => used.forEach((percent, x) => {
    const from = within(xOf(x * each), BOX.left, boxWidth() - BOX.right), to = within(xOf((x + 1) * each), BOX.left, boxWidth() - BOX.right);
    if (percent === null || to <= from) return;
    shades[percent === 0 ? 0 : Math.min(4, 1 + Math.floor(percent / 25))] += `M${from.toFixed(1)},${y}h${(to - from).toFixed(1)}v.8h${(from - to).toFixed(1)}z`;
  }));
  map.setAttribute('viewBox', `0 0 ${boxWidth()} ${Math.max(segments.length, 1)}`);
  map.style.height = `${8 * segments.length}px`;
  map.replaceChildren(...shades.map((path, shade) => shape('path', { class: `u${shade}`, d: path || 'M0,0' })));
  $('segments-box').hidden = segments.length === 0;
  $('segments-about').textContent = 'A row is a segment, by address: red while empty, darker blue = fuller' +
    (unshown > 0 ? `; showing the ${segments.length} largest of ${countText(segments.length + unshown)}` : '');
}

function reservedAt(ns) {
  let held = 0;
  for (const [from, bytes] of chart.memory.reserved) if (from <= ns) held = bytes;
  return held;
}

function momentText(at) {
  const { memory } = chart;
  return `At ${durationText(timeOf(at))}: ${bytesText(memory.live[at])} of ${memory.name} live` +
    `${at === memory.peak ? ', its peak' : `; peak ${bytesText(memory.most)} at ${durationText(timeOf(memory.peak))}`}` +
    (memory.reserved.length ? `; ${bytesText(reservedAt(at >= timeline.moments ? timeline.end_ns : begin(at)))} reserved` : '');
}

// What changed between the ends of the range.
function rangeText() {
  const { memory, from, to } = chart, change = memory.live[to] - (from < 0 ? 0 : memory.live[from]);
  return `From ${durationText(timeOf(from))} to ${durationText(timeOf(to))}: ${growthText(change, timeOf(to) - timeOf(from))}, ${memory.name}`;
}

// The figures of the moment: a row for each layer, as they lie in the chart.
function drawMoment() {
  const { memory, at, from, to } = chart, center = (moment) => xOf(moment >= timeline.moments ? timeline.end_ns : begin(moment + 0.5));
  const place = (id, left, right) => {
    $(id).hidden = right < BOX.left || left > boxWidth() - BOX.right;
    $(id).style.left = `${(within(left, BOX.left, boxWidth() - BOX.right)).toFixed(1)}px`;
    $(id).style.width = `${Math.max(1, within(right, BOX.left, boxWidth() - BOX.right) - within(left, BOX.left, boxWidth() - BOX.right)).toFixed(1)}px`;
  };
  place('cursor', center(at), center(at) + 1);
  if (from === null) $('range').hidden = true;
  else place('range', xOf(begin(from + 1)), xOf(to >= timeline.moments ? timeline.end_ns : begin(to + 1)));
  $('moment').textContent = from === null ? momentText(at) : `${rangeText()}. ${momentText(at)}`;
  $('chart').setAttribute('aria-valuenow', at);
  $('chart').setAttribute('aria-valuetext', $('moment').textContent);
  $('shares').replaceChildren(...[...chart.layers].reverse().map((layer) => {
    const row = element('tr'), mark = element('td');
    mark.append(element('span', `mark ${layer.color}`));
    row.append(mark, element('td', 'number', bytesText(layer.live[at])), element('td', 'name', layer.name),
      element('td', 'name', layer.place), element('td', 'name dim', layer.from));
    return row;
  }));
}

// ---- pointer and keys

function setMoment(at) {
  chart.at = within(at, 0, timeline.moments);
  chart.from = chart.to = null;
  drawMoment();
  followTime();
}

// The moment goes to the peak of the range.
function setRange(from, to) {
  const { live } = chart.memory;
  chart.from = within(Math.min(from, to), -1, timeline.moments - 1);
  chart.to = within(Math.max(from, to), chart.from + 1, timeline.moments);
  chart.at = chart.from + 1;
  for (let i = chart.from + 1; i <= chart.to; i++) if (live[i] > live[chart.at]) chart.at = i;
  drawMoment();
  followTime();
}

function setZoom(low, high) {
  const all = Math.max(timeline.end_ns, 1), wide = within(high - low, Math.min(4 * timeline.interval_ns, all), all);
  chart.low = within(low, 0, all - wide);
  chart.high = chart.low + wide;
  drawChart();
}

function zoomBy(factor, around = begin(chart.at + 0.5)) {
  const wide = (chart.high - chart.low) * factor, part = within((around - chart.low) / (chart.high - chart.low), 0, 1);
  setZoom(around - part * wide, around + (1 - part) * wide);
}

function showMoment() {
  const wide = chart.high - chart.low, time = begin(chart.at + 0.5);
  if (time < chart.low || time > chart.high) setZoom(time - wide / 2, time + wide / 2);
}

function resetZoom() {
  if (chart.from !== null && chart.low === 0 && chart.high >= timeline.end_ns) setMoment(chart.at);
  setZoom(0, timeline.end_ns);
}

function zoomRange() {
  if (chart.from !== null) setZoom(begin(chart.from + 1), begin(chart.to + 1));
}

const pointX = (event) => event.clientX - $('chart').getBoundingClientRect().left;

function hideTip() {
  $('tip').hidden = true;
}

function showTip(event) {
  const box = $('chart').getBoundingClientRect(), x = event.clientX - box.left, at = momentAt(timeAt(x)), { memory, layers } = chart;
  if (x < BOX.left || x > boxWidth() - BOX.right) return hideTip();
  let most = 1, below = 0, found = null;
  for (let i = momentAt(chart.low); i <= lastShown(); i++) most = Math.max(most, memory.live[i]);
  for (const [ns, bytes] of memory.reserved) if (ns < chart.high) most = Math.max(most, bytes);
  const bytes = ((BOX.height - BOX.bottom - (event.clientY - box.top)) / (BOX.height - BOX.bottom - BOX.top)) * most;
  for (const layer of layers) {
    below += layer.live[at];
    if (!found && bytes <= below && layer.live[at] > 0) found = layer;
  }
  const tip = $('tip');
  tip.hidden = false;
  tip.replaceChildren(element('b', '', `${durationText(timeOf(at))}: ${bytesText(memory.live[at])} live`),
    ...(found ? [element('span', '', `${bytesText(found.live[at])}  ${found.name}  ${found.place}`), ...(found.from ? [element('span', 'dim', found.from)] : [])] : []));
  tip.style.left = x > boxWidth() / 2 ? 'auto' : `${x + 12}px`;
  tip.style.right = x > boxWidth() / 2 ? `${boxWidth() - x + 12}px` : 'auto';
}

const chartPointer = {
  pointerdown(event) {
    chart.dragged = { x: pointX(event), moved: false };
    $('chart').setPointerCapture?.(event.pointerId);
  },
  pointermove(event) {
    const { dragged } = chart, x = pointX(event);
    showTip(event);
    if (!dragged || (Math.abs(x - dragged.x) < 4 && !dragged.moved)) return;
    dragged.moved = true;
    [chart.from, chart.to] = [momentAt(timeAt(Math.min(x, dragged.x))) - 1, momentAt(timeAt(Math.max(x, dragged.x)))];
    drawMoment();
  },
  pointerup(event) {
    const { dragged } = chart, x = pointX(event);
    chart.dragged = null;
    if (!dragged) return;
    if (dragged.moved) setRange(momentAt(timeAt(Math.min(x, dragged.x))) - 1, x > boxWidth() - BOX.right - 2 && chart.high >= timeline.end_ns ? timeline.moments : momentAt(timeAt(Math.max(x, dragged.x))));
    else setMoment(momentAt(timeAt(x)));
  },
  pointercancel() {
    chart.dragged = null;
  },
  pointerleave: hideTip,
  dblclick: resetZoom,
  wheel(event) {
    if (!event.ctrlKey) return;
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, timeAt(pointX(event)));
    event.preventDefault();
  },
};

function onChartKey(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50 }[event.key], { low, high, from, to, at } = chart;
  const done = {
    Home: () => setMoment(momentAt(low)), End: () => setMoment(high >= timeline.end_ns ? timeline.moments : lastShown()), p: () => setMoment(chart.memory.peak),
    '+': () => zoomBy(0.5), '=': () => zoomBy(0.5), '-': () => zoomBy(2), Enter: zoomRange, z: zoomRange,
    Escape() {
      if (from !== null) setMoment(at);
      setZoom(0, timeline.end_ns);
    },
  }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || (!step && !done)) return;
  hideTip();
  if (done) done();
  else if (event.shiftKey) setRange(from ?? at, within((to ?? at) + step, (from ?? at) + 1, timeline.moments));
  else setMoment(at + step * Math.max(1, Math.round(((high - low) / timeline.interval_ns) / (boxWidth() - BOX.left))));
  showMoment();
  event.preventDefault();
}

function startTimeline() {
  const memories = timelineMemories;
  if (memories.length === 0) return;
  $('timeline').hidden = false;
  memories.forEach((memory, index) => {
    const option = element('option', '', `${memory.name} (peak ${bytesText(memory.most)})`);
    option.value = String(index);
    $('memory-shown').append(option);
  });
  if (!timeline.sites.some((site) => site.owner)) $('divided-box').hidden = true;
  const divide = () => {
    chart.layers = makeLayers(chart.memory, $('divided').value || 'sites');
    drawChart();
  };
  const show = () => {
    chart.memory = memories[Number($('memory-shown').value || 0)];
    chart.at = chart.memory.peak;
    chart.from = chart.to = null;
    [chart.low, chart.high] = [0, Math.max(timeline.end_ns, 1)];
    $('chart').setAttribute('aria-valuemax', timeline.moments);
    divide();
  };
  $('memory-shown').addEventListener('change', () => {
    show();
    followTime();
  });
  $('divided').addEventListener('change', divide);
  for (const [type, listener] of Object.entries(chartPointer)) $('chart').addEventListener(type, listener, { passive: false });
  $('chart').addEventListener('keydown', onChartKey);
  for (const [id, act] of [['zoom-in', () => zoomBy(0.5)], ['zoom-out', () => zoomBy(2)], ['zoom-range', zoomRange], ['zoom-reset', resetZoom]])
    $(id).addEventListener('click', act);
  window.addEventListener('resize', drawChart);
  show();
}


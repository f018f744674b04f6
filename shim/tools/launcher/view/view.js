// view.js - shows the report that is in the page: header, errors, flame graph, call sites;
// timeline.js and stacks.js, before it in the page, have the timeline and the stacks.
//
// Text of the report gets into the page as textContent alone. The words are those of the text
// report (docs/tracker.md).

const $ = (id) => document.getElementById(id);
const list = (value) => (Array.isArray(value) ? value : []);
const onFailure = () => ($('summary').textContent = 'This report is not whole: it cannot be shown.');
window.addEventListener('error', onFailure);

// Of several processes the page shows the one that the address names, as #1.
const chosen = Number(window.location?.hash.slice(1)) || 0;
const part = (name, number) => JSON.parse($(number > 0 ? `${name}-${number}` : name)?.textContent ?? 'null');
const timeline = part('timeline-data', chosen);
const report = part('report', chosen) ?? {
  process: { command: timeline.program || (timeline.pid ? `process ${timeline.pid}` : 'a trace'), pid: timeline.pid, rank: null, ending: 'a trace alone, without a report' },
  time: { end_unix_ms: timeline.start_unix_ms ? timeline.start_unix_ms + timeline.end_ns / 1e6 : NaN, duration_ns: timeline.end_ns },
};
const running = report.process.running === true;
// The process wrote no report itself; `killedBy`: the signal that ended it. Older reports say so in `ending` alone.
const killedBy = ({ killed_by: signal, ending = '' }) => signal ?? (ending.startsWith('killed by ') ? ending.slice('killed by '.length) : '');
const isKilled = (process) => process.killed === true || process.ending === 'ended without a report' || killedBy(process) !== '';
// gs_report_is_live
const hasLive = (process) => process.running === true || (isKilled(process) && !process.ending?.startsWith('exit_group '));
const killed = isKilled(report.process), isLive = hasLive(report.process);

// ---- the text report's numbers and names ---------------------------------------------------

function bytesText(bytes) {
  let unit = 0;
  for (; unit < 6 && Math.round(bytes) >= 1024; unit++) bytes /= 1024;
  const digits = unit === 0 ? 0 : bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0;
  return `${bytes.toFixed(digits)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}`;
}

const countText = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ',');
const counted = (count, noun) => `${countText(count)} ${noun}${count === 1 ? '' : 's'}`;

// gs_text_duration
function durationText(ns) {
  const seconds = Math.floor(ns / 1e9), two = (number) => String(number % 60).padStart(2, '0');
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)}h${two(Math.floor(seconds / 60))}m`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)}m${two(seconds)}s`;
  const [unit, name] = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : [1e3, 'us'], hundredths = Math.floor((ns * 100) / unit);
  if (ns < 1e3) return '0 s';
  const digits = unit === 1e3 || hundredths >= 10000 ? 0 : hundredths >= 1000 ? 1 : 2;
  return `${(Math.floor(hundredths / 10 ** (2 - digits)) / 10 ** digits).toFixed(digits)} ${name}`;
}

// gs_text_growth
function growthText(bytes, ns) {
  if (bytes === 0) return `no change in ${durationText(ns)}`;
  const apart = Math.abs(bytes);
  return `${bytes < 0 ? '-' : '+'}${bytesText(apart)} in ${durationText(ns)} (${bytesText(Math.round((apart * 1e9) / Math.max(ns, 1)))}/s)`;
}

function percentText(part, whole) {
  const tenths = whole > 0 ? Math.round((1000 * part) / whole) : 0;
  return tenths >= 1000 && part >= whole ? '100 %' : `${(Math.min(tenths, 999) / 10).toFixed(1)} %`;
}

const memoryNames = {
  managed: 'managed memory', array: 'array', imported: 'imported memory', mapped: 'mapping of imported memory',
  multicast: 'multicast object', graph: 'graph memory', pinned: 'pinned host memory',
  'physical-host': 'pinned host memory', registered: 'registered host memory',
};

// "GPU 0", "managed memory, GPU 0", "pinned host memory"
function memoryName(kind, device) {
  const name = memoryNames[kind], gpu = device === null || device === undefined ? '' : `GPU ${device}`;
  return name && gpu ? `${name}, ${gpu}` : name || gpu || 'host';
}

// Of the stacks as they are shown; the full ones have whole paths.
const stacksShown = [report.leaks, report.unplaced, report.suppressed, report.registered, ...list(report.peaks).map((peak) => peak.places),
  timeline?.sites].flatMap(list).map((site) => list(site.stack));
const framesShown = [...new Set(stacksShown.flat())].map((number) => list(report.frames)[number]).filter(Boolean);
const shown = shownPaths([...framesShown.map((frame) => frame.file || list(report.modules)[frame.module]?.path),
  ...list(timeline?.sites).map((site) => site.owner)].filter(Boolean));
const shownPath = (path) => shown.get(path) ?? baseName(path);

const frames = list(report.frames).map(readFrame);

// ---- what can be shown ---------------------------------------------------------------------

function noStack(site) {
  if (site.size) return site.size;
  if (site.no_stack === 'not sampled') return 'no call stack: not sampled';
  if (site.no_stack === 'too small') return 'no call stack: smaller than GPUSHIM_STACK=min';
  return 'no call stack was recorded';
}

// A call site, with the sizes that it stands for.
function readSite(site, index) {
  const { shown: stack, inner } = readStack(site);
  const hasOwn = site.kind !== 'mapped' && site.kind !== 'multicast';
  const none = { name: noStack(site), place: '' };
  return {
    site, stack, inner, hasOwn, number: index + 1, top: frames[stack[0]] || none, memory: memoryName(site.kind, site.device),
    bytes: hasOwn ? site.likely_bytes ?? site.bytes : 0, count: site.likely_count ?? site.count,
    isEstimate: site.likely_bytes !== undefined && site.likely_bytes !== site.bytes,
    text: [site.call, site.kind, memoryName(site.kind, site.device), site.fate, site.rule].join(' ').toLowerCase(),
  };
}

// `bytes`: what the shares are of; undefined: the sum.
function makeView(title, word, part, sites, bytes, note = '') {
  // Of sampled stacks, those with likely_bytes 0 are stood for by others.
  const read = sites.map(readSite).filter((site) => site.site.likely_bytes !== 0);
  const sum = (unit) => read.reduce((all, site) => all + site[unit], 0);
  return { title, word, part, sites: read, bytes: bytes ?? sum('bytes'), count: sum('count'), note };
}

function peakView(peak) {
  const name = peak.memory === 'pinned_host' ? 'pinned host memory' : `GPU ${peak.device}`;
  const placed = list(peak.places).reduce((all, site) => all + site.bytes, 0);
  return makeView(`Peak of ${name}`, 'PEAK', 'of the peak', list(peak.places), peak.bytes,
    `Peak of ${name}: ${bytesText(peak.bytes)} at ${durationText(peak.time_ns)}, ` +
    `${bytesText(peak.freed_bytes)} of it freed since` +
    (peak.places_are_exact === false ? `; about ${bytesText(placed)} of it by call site` : ''));
}

const views = [
  makeView(isLive ? 'What is live' : 'What leaked', isLive ? 'LIVE' : 'LEAK', isLive ? 'of live' : 'of leaked',
    list(report.leaks).concat(list(report.unplaced)), report.summary?.leaked_bytes),
  ...list(report.peaks).map(peakView),
  makeView('Cached or held, no leak', 'CACHED', 'of cached', list(report.suppressed).filter((site) => site.cached_by || site.held_by)),
  makeView('Suppressed', 'SUPPRESSED', 'of suppressed', list(report.suppressed).filter((site) => !site.cached_by && !site.held_by)),
  makeView('Registered host memory', 'REGISTERED', 'of registered', list(report.registered)),
].filter((view, index) => index === 0 || view.sites.length > 0);

// ---- the flame graph's tree ----------------------------------------------------------------

function makeNode(parent, key, { label, file = '', color, text = label.toLowerCase() }) {
  return { parent, key, label, file, color, text, bytes: 0, count: 0, children: new Map(), order: {}, run: null };
}

function step(parent, key, part, site) {
  let child = parent.children.get(key);
  if (!child) parent.children.set(key, (child = makeNode(parent, key, part)));
  child.bytes += site.bytes;
  child.count += site.count;
  return child;
}

const pathOf = (node) => (node.parent ? `${pathOf(node.parent)}\n\n${node.key}` : '');

// A run of frames that is one frame of the graph; sites may have more and fewer frames there.
function stepRun(parent, run, site) {
  const names = familyNames(run), node = step(parent, `... ${names}`, { label: `... ${names}`, color: 'fold' }, site);
  node.run ||= { numbers: new Set(), least: run.length, most: run.length, names };
  node.run.least = Math.min(node.run.least, run.length);
  node.run.most = Math.max(node.run.most, run.length);
  for (const number of run) node.run.numbers.add(number);
  return node;
}

function stepFrame(parent, number, isInnermost, site) {
  const frame = frames[number], node = step(parent, `${frame.label}\n${isInnermost ? frame.file : frame.anyLine}`, frame, site);
  if (node.file !== frame.file) node.file = frame.anyLine;
  return node;
}

const isUnfolded = (node, run) => state.unfolded.size > 0 && state.unfolded.has(`${pathOf(node)}\n\n... ${familyNames(run)}`);

function treeOf(view) {
  if (view.tree && view.folds === state.folds) return view.tree;
  const root = makeNode(null, '', { label: view.title, color: 'top' });
  const plain = (parent, label, site) => step(parent, label, { label, color: 'top' }, site);
  for (const site of view.sites) {
    root.bytes += site.bytes;
    root.count += site.count;
    let node = plain(root, site.memory, site);
    if (site.stack.length === 0) plain(node, `[${noStack(site.site)}]`, site);
    else if (site.site.truncated) node = plain(node, '[more frames]', site);
    // Calls by several lines of a function are one frame; what allocates has a frame for each line.
    const parts = state.all ? site.inner.concat(site.stack).map((number) => [number]) : partsOf(site.stack);
    for (let i = parts.length - 1; i >= 0; i--) {
      if (parts[i].length > 1 && !isUnfolded(node, parts[i])) node = stepRun(node, parts[i], site);
      else for (const number of parts[i].reverse()) node = stepFrame(node, number, i === 0, site);
    }
  }
  view.folds = state.folds;
  return (view.tree = root);
}

// The node of a tree that was at this path, or as far as the tree has it.
function findNode(root, node) {
  const keys = [];
  for (; node?.parent; node = node.parent) keys.unshift(node.key);
  return keys.reduce((at, key) => (at.isEnd || !at.node.children.has(key) ? { ...at, isEnd: true } : { node: at.node.children.get(key) }), { node: root }).node;
}

// ---- what is chosen ------------------------------------------------------------------------

// `all`: no run is folded; `unfolded`: paths of the graph's runs that are not; `folds` counts their changes.
const state = { view: views[0], unit: 'bytes', term: '', zoomed: null, column: 0, falling: true, all: false, unfolded: new Set(), folds: 0, errorStacks: 0 };

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function weightText(item, view) {
  const share = percentText(item[state.unit], view[state.unit]);
  return `${bytesText(item.bytes)} in ${counted(item.count, 'allocation')} (${share} ${view.part})`;
}

// ---- the flame graph -----------------------------------------------------------------------

const ROW = 20; // pixels
const drawn = new Map(); // node -> its element, and back

// The largest child first: what follows one that is too thin to be seen is no wider.
function ordered(node) {
  const unit = state.unit;
  return (node.order[unit] ||= [...node.children.values()].sort((a, b) => b[unit] - a[unit]));
}

function nodeText(node) {
  if (!node.run) return `${node.label}${node.file ? `  ${node.file}` : ''}: ${weightText(node, state.view)}`;
  const { least, most, names } = node.run;
  return `... ${least < most ? `${countText(least)} to ` : ''}${counted(most, 'frame')} of ${names}: ${weightText(node, state.view)}; a click shows them`;
}

const isFound = (node) => node.text.includes(state.term) || [...(node.run?.numbers ?? [])].some((number) => frames[number].text.includes(state.term));

function drawFrame(node, depth, left, share, width) {
  const wide = share * width, made = element('div', `frame ${node.color}`, wide > 24 ? node.label : '');
  if (state.term && isFound(node)) made.className += ' hit';
  if (depth < 0) made.className += ' above';
  if (wide < 4) made.className += ' slim';
  made.style.left = `${100 * left}%`;
  made.style.width = `${100 * share}%`;
  made.setAttribute('role', 'treeitem');
  made.title = nodeText(node);
  made.setAttribute('aria-label', made.title);
  made.tabIndex = node === state.zoomed ? 0 : -1;
  drawn.set(node, made);
  drawn.set(made, node);
  return made;
}

function drawGraph() {
  const graph = $('graph'), unit = state.unit, items = []; // [element, depth]
  let above = 0, deepest = 0;
  graph.hidden = false; // to be measured
  const width = graph.clientWidth || 1000;
  drawn.clear();
  state.zoomed ||= treeOf(state.view);
  for (let node = state.zoomed.parent; node; node = node.parent)
    items.unshift([drawFrame(node, -1, 0, 1, width), -++above]);
  // Not by recursion: a stack may be deep.
  const todo = state.zoomed[unit] > 0 ? [[state.zoomed, 0, 0, 1]] : [];
  while (todo.length > 0) {
    const [node, depth, left, share] = todo.pop();
    items.push([drawFrame(node, depth, left, share, width), depth]);
    deepest = Math.max(deepest, depth);
    let at = left;
    const children = [];
    for (const child of ordered(node)) {
      const part = (share * child[unit]) / node[unit], rest = left + share - at;
      if (part * width < 1) {
        if (rest * width < 1 || child[unit] === 0) break;
        const thin = element('div', 'frame slim thin');
        thin.style.left = `${100 * at}%`;
        thin.style.width = `${100 * rest}%`;
        thin.title = 'frames thinner than a pixel: zoom in';
        items.push([thin, depth + 1]);
        break;
      }
      children.push([child, depth + 1, at, part]);
      at += part;
    }
    todo.push(...children.reverse());
  }
  for (const [made, depth] of items) {
    made.style.top = `${(depth + above) * ROW}px`;
    made.setAttribute('aria-level', depth + above + 1);
  }
  graph.className = state.term ? 'searched' : '';
  graph.style.height = `${(above + deepest + 1) * ROW}px`;
  graph.hidden = $('legend').hidden = items.length === 0;
  graph.replaceChildren(...items.map(([made]) => made));
  $('frame').textContent = items.length > 0 ? nodeText(state.zoomed) : '';
}

function choose(node) {
  if (node.run) unfold(node);
  else zoom(node);
}

function zoom(node) {
  state.zoomed = node;
  drawGraph();
  drawn.get(node)?.focus();
}

// Shows the frames of a run, in the graph.
function unfold(run) {
  state.unfolded.add(pathOf(run));
  redrawFolds(run.parent);
}

function redrawFolds(focused) {
  const old = state.zoomed;
  state.folds++;
  const tree = treeOf(state.view);
  state.zoomed = findNode(tree, old);
  drawGraph();
  if (focused) drawn.get(findNode(tree, focused))?.focus();
}

// Shows each frame on the page, or folds all runs.
function showAll(all) {
  state.all = $('all').checked = all;
  state.unfolded.clear();
  for (const { made, holder } of stackLists) fillStack(made, holder, all);
  redrawFolds(null);
}

function onPageKey(event) {
  const { target } = event, isText = /^(SELECT|TEXTAREA)$/.test(target?.tagName) || target?.type === 'search';
  if (event.key !== 'f' || event.ctrlKey || event.metaKey || event.altKey || isText) return;
  showAll(!state.all && state.unfolded.size === 0);
}

function neighbour(node, key) {
  if (key === 'ArrowUp') return node.parent;
  if (key === 'ArrowDown') return ordered(node)[0];
  const siblings = node.parent ? ordered(node.parent) : [];
  return siblings[siblings.indexOf(node) + (key === 'ArrowRight' ? 1 : -1)];
}

function onGraphKey(event) {
  const node = drawn.get(event.target);
  if (!node) return;
  if (event.key === 'Enter' || event.key === ' ') choose(node);
  else if (event.key === 'Escape') zoom(state.zoomed.parent || state.zoomed);
  else if (event.key.startsWith('Arrow')) drawn.get(neighbour(node, event.key))?.focus();
  else return;
  event.preventDefault();
}

function onGraphPoint(event) {
  const node = drawn.get(event.target);
  if (node) $('frame').textContent = nodeText(node);
}

// ---- the table of call sites ---------------------------------------------------------------

const SHOWN = 300; // rows

function bytesCell(site) {
  return site.hasOwn ? (site.isEstimate ? 'about ' : '') + bytesText(site.bytes) : 'no memory of its own';
}

// "step/forward": the outermost frame of its stack; '': none.
const scopeOf = ({ stack }) => /^\[scope (.*)\]$/.exec(list(report.frames)[list(stack).at(-1)]?.function)?.[1] ?? '';

const columns = [
  { title: 'bytes', number: true, key: (site) => site.bytes, text: bytesCell },
  { title: 'allocations', number: true, key: (site) => site.count, text: (site) => countText(site.count) },
  { title: 'kind', className: 'extra', key: (site) => site.site.kind },
  { title: 'device', className: 'extra', number: true, key: (site) => site.site.device ?? -1,
    text: (site) => site.site.device ?? '' },
  { title: 'function', className: 'name', key: (site) => site.top.name },
  { title: 'file and line', className: 'name', key: (site) => site.top.place },
  ...(list(report.scopes).length > 0 ? [{ title: 'scope', className: 'extra name', key: (site) => scopeOf(site.site) }] : []),
];
const inOrder = new Intl.Collator('en', { numeric: true }).compare;

function agesText(site) {
  if (site.oldest_ns === undefined) return '';
  const age = (ns) => Math.max(0, report.time.duration_ns - ns), oldest = age(site.oldest_ns), newest = age(site.newest_ns);
  const texts = [durationText(oldest), durationText(newest)];
  if (oldest >= newest + 1e6 && texts[0] !== texts[1]) return `oldest ${texts[0]}, newest ${texts[1]}, `;
  return oldest < 1e6 ? '' : `age ${texts[0]}, `;
}

// gs_report_killed_fate
function killedFate(process) {
  const signal = killedBy(process), { rank } = process;
  return signal ? `live when killed by ${signal}${Number.isInteger(rank) ? ` (rank ${rank})` : ''}` : 'live when it ended';
}

function fateText({ site }) {
  if (site.lost_with_context) return 'live at reset';
  if (site.live_bytes === undefined)
    return site.fate !== 'live at exit' ? site.fate : running ? 'live' : killed ? killedFate(report.process) : site.fate;
  if (site.live_count === 0) return 'all freed since';
  return site.live_count >= site.count ? 'all still live' : `${bytesText(site.live_bytes)} of it still live`;
}

function siteDetail(site) {
  const row = element('tr', 'detail'), cell = element('td'), view = state.view;
  const weight = site.hasOwn ? weightText(site, view)
    : `${bytesText(site.site.bytes)} in ${counted(site.count, 'allocation')} (no memory of its own)`;
  cell.colSpan = columns.length;
  cell.append(
    element('p', '', `${view.word} ${site.number}: ${site.isEstimate ? 'about ' : ''}${weight}` +
      (site.site.growing ? ', still growing' : '') +
      (site.isEstimate ? `, by ${countText(site.site.count)} sampled` : '')),
    element('p', 'name', [site.site.call, site.memory, agesText(site.site) + fateText(site),
      site.site.rule && `suppressed by ${site.site.rule}`, site.site.cached_by && `cached by ${site.site.cached_by}`,
      site.site.held_by && `held by globals until ${site.site.held_by} ended`].filter(Boolean).join(', ')),
    stackList(site.site));
  row.append(cell);
  return row;
}

function siteRow(site) {
  const row = element('tr'), opener = element('button', 'site', site.top.name);
  let detail = null;
  opener.setAttribute('aria-expanded', 'false');
  for (const column of columns) {
    const cell = element('td', `${column.className || ''}${column.number ? ' number' : ''}`);
    if (column.title === 'function') cell.append(opener);
    else cell.textContent = (column.text || column.key)(site);
    row.append(cell);
  }
  row.addEventListener('click', () => { // the button's, too
    if (detail) detail.remove();
    else row.after((detail = siteDetail(site)));
    if (!detail.parentNode) detail = null;
    opener.setAttribute('aria-expanded', String(detail !== null));
  });
  return row;
}

// The call sites that the search finds.
function foundSites() {
  if (!state.term) return state.view.sites;
  const hits = frames.map((frame) => frame.text.includes(state.term));
  return state.view.sites.filter((site) => site.text.includes(state.term) || site.stack.concat(site.inner).some((number) => hits[number]));
}

function drawTable() {
  const found = foundSites(), { key, number } = columns[state.column], turn = state.falling ? -1 : 1;
  const sorted = [...found].sort((a, b) => turn * (number ? key(a) - key(b) : inOrder(key(a), key(b))));
  const sums = { bytes: 0, count: 0 }, rest = { bytes: 0, count: 0 };
  sorted.forEach((site, i) => {
    for (const sum of i < SHOWN ? [sums] : [sums, rest]) {
      sum.bytes += site.bytes;
      sum.count += site.count;
    }
  });
  stackLists.length = state.errorStacks;
  $('rows').replaceChildren(...sorted.slice(0, SHOWN).map(siteRow));
  $('sites').hidden = state.view.sites.length === 0;
  $('more').textContent = found.length <= SHOWN ? '' : `${counted(found.length - SHOWN, 'more call site')}: ` +
    `${bytesText(rest.bytes)} in ${counted(rest.count, 'allocation')}; search, or sort the other way`;
  const places = state.term ? `${countText(found.length)} of ${counted(state.view.sites.length, 'call site')} found: ` : '';
  $('sum').textContent = state.view.sites.length === 0 ? 'nothing'
    : `${state.view.note && !state.term ? `${state.view.note}; ` : ''}${places}${weightText(sums, state.view)}` +
      (state.term ? '' : `, ${counted(found.length, 'call site')}`);
  $('headings').replaceChildren(...columns.map(heading));
}

function heading(column, index) {
  const isSorted = index === state.column;
  const made = element('th', `${column.className || ''}${column.number ? ' number' : ''}`);
  const button = element('button', '', column.title + (isSorted ? (state.falling ? ' ▾' : ' ▴') : ''));
  made.setAttribute('scope', 'col');
  if (isSorted) made.setAttribute('aria-sort', state.falling ? 'descending' : 'ascending');
  button.addEventListener('click', () => {
    state.falling = isSorted ? !state.falling : column.number === true;
    state.column = index;
    drawTable();
    $('headings').childNodes[index].childNodes[0].focus();
  });
  made.append(button);
  return made;
}

function draw() {
  drawGraph();
  drawTable();
}

// ---- errors --------------------------------------------------------------------------------

const isDamage = (error) => error.changed_bytes > 0;

function useTitle({ error, address, device, call, use, allocation, offset_bytes }) {
  const what = `${call} of ${bytesText(use.bytes)}`;
  if (!allocation) return `${error} at ${address} (GPU ${device}, ${what})`;
  const memory = memoryName(allocation.kind, allocation.device), begins = error === 'underrun';
  if (error === 'use after free') return `${error} of ${address} (${bytesText(allocation.bytes)}, ${memory}, ${call})`;
  const beyond = begins ? offset_bytes : offset_bytes + use.bytes - allocation.bytes;
  return `${error} of ${allocation.address} by ${bytesText(beyond)} (` +
    `${what} ${begins ? 'that begins before' : `at offset ${countText(offset_bytes)} of`} a live allocation of ` +
    `${bytesText(allocation.bytes)}, ${memory})`;
}

function proofTitle({ error, address, device, call, waited_ns: ns }) {
  const wait = durationText(ns);
  return `${error} (${call}, GPU ${device}): ` + (address === '0x0'
    ? `no stream showed work, but the device needed ${wait} to be idle`
    : `stream ${address} had work that no counted call submitted; it ran for ${wait} more`);
}

function brokenTitle({ error, device, call, repeats, broken_rule: { rule, bytes, max_bytes: most } }) {
  if (most !== null) return `${error}: ${bytesText(bytes)} at the peak of GPU ${device}, more than the ${bytesText(most)} of ${rule}`;
  return `${error}: ${call}, ${device === null ? '' : `GPU ${device}, `}${counted(repeats + 1, 'call')}, ${bytesText(bytes)}, denied by ${rule}`;
}

function errorTitle(error) {
  const was = error.allocation;
  if (error.error === 'idle check failed') return proofTitle(error);
  if (error.use) return useTitle(error);
  if (error.broken_rule) return brokenTitle(error);
  const about = error.device === null ? [] : [`GPU ${error.device}`];
  if (was && (error.offset_bytes === 0 || isDamage(error)))
    about.splice(0, 1, bytesText(was.bytes), memoryName(was.kind, was.device));
  const title = (word, call, end) => `${error.error} ${word} ${error.address} (${about.concat(call).join(', ')})${end}`;
  if (!isDamage(error)) return title('of', error.call, '');
  const behind = error.error === 'overrun';
  return title(behind ? 'of' : 'to', was ? was.call : error.call, `: ${counted(error.changed_bytes, 'byte')} changed` +
    `${behind ? ' past its end' : ''}, first at +${countText(error.first_changed)}`);
}

function positionText({ error, use, allocation, offset_bytes }) {
  if (error === "use of memory that is nobody's")
    return 'the pool holds this memory: it was never allocated, or freed too long ago to be remembered';
  if (!allocation) return error === 'idle check failed' ? '' : 'not a live or recently freed allocation';
  if (offset_bytes === 0 || (use && error !== 'use after free')) return '';
  return `${counted(offset_bytes, 'byte')} into ${use ? 'what was' : 'a live allocation of'} ` +
    `${bytesText(allocation.bytes)} at ${allocation.address}`;
}

// What the program did at a time, by which thread; and the stack.
function addSite(box, what, site, end) {
  const hasStack = list(site.stack).length > 0, by = site.thread ? ` by thread ${site.thread}` : '';
  box.append(element('p', 'name', `${what} at ${durationText(site.time_ns)}${by}${end}`));
  if (hasStack) box.append(stackList(site));
}

function whatOf(error) {
  if (isDamage(error)) return `found by ${error.call}`;
  if (error.use) return error.use.writes ? 'to be written' : 'to be read';
  return error.error === 'double free' ? 'freed again' : 'freed';
}

function errorBox(error, index, all) {
  const box = element('details', 'error'), was = error.allocation, position = isDamage(error) ? '' : positionText(error);
  const noStackOf = (site, why) => (list(site.stack).length > 0 ? '' : ` (no call stack recorded${why})`);
  box.open = all.length <= 4;
  box.append(element('summary', '', `ERROR ${index + 1}: ${errorTitle(error)}`));
  if (error.broken_rule) {
    const placed = list(error.stack).length > 0;
    if (error.broken_rule.max_bytes !== null)
      box.append(element('p', '', `peak at ${durationText(error.time_ns)}${placed ? `, the largest call site, ${error.call}` : ''}`));
    if (placed) box.append(stackList(error));
    return box;
  }
  if (position) box.append(element('p', '', position));
  if (isDamage(error) && error.call === 'unknown')
    box.append(element('p', '', `found at the last check, at ${durationText(error.time_ns)}`));
  else addSite(box, whatOf(error), error, (error.thread_name ? ` "${error.thread_name}"` : '') + noStackOf(error, ''));
  if (error.repeats > 0) box.append(element('p', '', `and ${counted(error.repeats, 'more time')} from there`));
  if (error.lost_with_context) box.append(element('p', '', 'its context was destroyed or reset'));
  else if (error.first_freed)
    addSite(box, error.use || isDamage(error) ? 'freed' : 'first freed', error.first_freed,
      noStackOf(error.first_freed, ': GPUSHIM_STACK=free'));
  if (was) addSite(box, 'allocated', was, ` with ${was.call}`);
  return box;
}

function drawErrors() {
  const errors = list(report.errors);
  const more = (report.summary?.errors ?? 0) - errors.reduce((sum, error) => sum + 1 + (error.repeats || 0), 0);
  if (errors.length === 0) return;
  $('errors').append(element('h2', '', 'Errors'), ...errors.map(errorBox));
  if (more > 0) $('errors').append(element('p', '', `${counted(more, 'more error')}, only counted`));
}

// ---- the header ----------------------------------------------------------------------------

function summaryText() {
  if (!report.summary)
    return timelineMemories.map(({ name, most, live }) => `${name}: peak ${bytesText(most)}, ${bytesText(live[live.length - 1])} not freed`).join('; ');
  const { errors, leaked_bytes, leaked_count, places } = report.summary;
  if (report.process.no_start && errors === 0) return 'nothing recorded: CUDA did not start';
  return `${counted(errors, 'error')}${running ? ' so far' : ''}, ` +
    `${bytesText(leaked_bytes)} ${killedBy(report.process) ? killedFate(report.process) : isLive ? 'live' : 'leaked'} in ${counted(leaked_count, 'allocation')}, ` +
    `${counted(places, 'call site')}${running ? `; still running${report.process.ending?.startsWith('as of ') ? ' then' : ''}` : isLive && !killedBy(report.process) ? '; ended without a report' : ''}`;
}

function windowsText({ attached, windows, first_from_ns, from_ns, to_ns }) {
  if (windows === 0) return 'nothing was recorded: tracking was never started (GPUSHIM_TRACK=later)';
  if (!attached && windows === 1 && from_ns === 0 && to_ns === null) return '';
  const times = windows > 1 ? `${countText(windows)} times, first from ${durationText(first_from_ns)}, last ` : '';
  return `recorded ${times}from ${durationText(from_ns)} ${to_ns === null ? 'on' : `to ${durationText(to_ns)}`}` +
    (attached && windows === 1 ? ' (attached): memory allocated before is not counted' : ': allocations at other times are not included');
}

// gs_report_transfers, in short.
function copyNote(site) {
  const top = frames[list(site.stack)[0]], host = site.to === 'host';
  const advice = {
    pageable: `${countText(site.pageable_count)} ${host ? 'to' : 'from'} pageable memory: pin it`,
    small: `${countText(site.small_count)} of at most 64 KiB: make one copy of all`,
    waited: `${countText(site.waited_count)} followed at once by a synchronize: synchronize once, after several`,
    slow: 'slow even at best: pin the memory, align its ends',
    returned: `${countText(site.returned_count)} with bytes that a copy from the GPU had brought: if the GPU has room keep them there`,
  };
  return `${countText(site.count)} copies ${host ? 'from GPU to host' : 'from host to GPU'} by ${site.call}` +
    `${top ? ` at ${top.name} ${top.place}` : ''}, ${bytesText(site.bytes)} in all: ` +
    list(site.hints).map((hint) => advice[hint] ?? hint).join('; ');
}

function copiesText({ to, memory, asynchronous, count, bytes, fastest_bytes_per_s: rate }) {
  return `Copies ${to === 'host' ? 'from GPU to host' : 'from host to GPU'}, ${memory}, ` +
    `${asynchronous ? 'asynchronous' : 'synchronous'}: ${countText(count)}, ${bytesText(bytes)}` +
    (rate > 0 ? `, at best ${(rate / 1e9).toFixed(2)} GB/s` : '');
}

function notesOf({ no_start, uncounted, order_ended }) {
  const lacking = report.not_grouped, recorded = report.recorded;
  const hasPool = list(report.devices).some((device) => device.pool);
  return [
    no_start && `CUDA did not start: ${no_start}`,
    killed && `The process ${killedBy(report.process) ? 'was killed' : 'ended without a report'}. This is its memory at that moment.`,
    recorded && windowsText(recorded),
    recorded && recorded.sample_changes > 0 && 'the share of call stacks was changed while the program ran ' +
      '(GPUSHIM_STACK=sample): call sites are estimates',
    recorded && recorded.sample_bytes > 0 && !recorded.sample_changes && `one call stack in ${bytesText(recorded.sample_bytes)} was recorded ` +
      '(GPUSHIM_STACK=sample): call sites are estimates',
    recorded && recorded.min_bytes > 0 && `allocations of less than ${bytesText(recorded.min_bytes)} have no call stack ` +
      '(GPUSHIM_STACK=min)',
    hasPool && order_ended && 'freed memory is used again once the GPU is done with it: ' +
      `${order_ended} ended the single order of lazy frees`,
    hasPool && uncounted && 'no free finds the GPU idle, so frees take longer: ' +
      `${uncounted} may give the GPU work that is not counted`,
    !report.summary && !timeline.sites.some((site) => site.stack) &&
      'call sites need the state file of the same run (--state-file): bands and graph are by kind and size',
    lacking && lacking.count > 0 &&
      `${bytesText(lacking.bytes)} in ${counted(lacking.count, 'allocation')} not grouped: out of memory`,
    ...list(report.hints).map((hint) => hint && hint.text),
    ...list(report.copies).map((way) => way && copiesText(way)),
    ...list(report.rules).map((rule) => rule?.note && !rule.note.expected &&
      `${rule.note.note}: ${rule.note.why}, by ${rule.rule}`),
    ...list(report.slow_copies).map((site) => site && copyNote(site)),
    report.note,
  ].filter(Boolean);
}

// A row for each device, and for host memory.
function memoryRows() {
  const rows = list(report.devices).map((device) =>
    [`GPU ${device.device} ${device.name || ''}`, device.totals, device.pool]);
  for (const [member, name] of [['pinned_host', 'Pinned host memory'], ['registered_host', 'Registered host memory'],
    ['imported', 'Imported memory'], ['views', 'Views of other memory']])
    rows.push([name, report[member]?.totals, null]);
  return rows.filter(([, totals]) => totals && (totals.allocs || totals.failed || totals.live_count));
}

function tableRow(kind, cells) {
  const made = element('tr');
  made.append(...cells.map((cell, i) => element(kind, i ? 'number' : 'name', cell)));
  return made;
}

function drawMemory() {
  const rows = memoryRows(), refusals = rows.some(([, totals]) => totals.failed);
  const failed = (cell) => refusals ? [cell] : []; // in front: a narrow screen has room for four columns
  if (rows.length === 0) return;
  $('memory').append(tableRow('th', ['', 'live', 'peak', ...failed('requests failed'), 'at', 'pool reserved']),
    ...rows.map(([name, totals, pool]) => tableRow('td', [
      name, bytesText(totals.live_bytes) + (totals.lost_bytes ? ` (${bytesText(totals.lost_bytes)} live at reset)` : ''),
      bytesText(totals.peak_bytes), ...failed(countText(totals.failed)), durationText(totals.peak_time_ns),
      pool ? bytesText(pool.reserved_bytes) : ''])));
}

// What was allocated in each scope; the highest peak comes first.
function drawScopes() {
  const scopes = list(report.scopes);
  $('scopes-box').hidden = scopes.length === 0;
  $('scopes').append(tableRow('th', ['', 'live', 'peak', 'allocated', 'allocs', 'frees', 'begun']),
    ...scopes.map((scope) => tableRow('td', [scope.path, bytesText(scope.live_bytes), bytesText(scope.peak_bytes),
      bytesText(scope.alloc_bytes), countText(scope.allocs), countText(scope.frees), countText(scope.begun)])));
}

// How long allocations lived; gs_report_lifetimes.
function drawLifetimes() {
  const sites = list(report.lifetimes);
  $('lifetimes-box').hidden = sites.length === 0;
  $('lifetimes').append(tableRow('th', ['', 'mean', 'longest', 'freed within 10 ms', 'allocs', 'allocated', 'at once']),
    ...sites.map((site) => {
      const top = frames[list(site.stack)[0]], { allocs, freed_count: freed } = site;
      const life = (ns, count) => count === 0 ? '-' : ns < 4e6 && count < 1000 ? '< 4 ms' : ns < 1e3 ? '< 1 us' : durationText(ns);
      return tableRow('td', [`${site.call}${top ? ` at ${top.name} ${top.place}` : ''}`,
        life(site.freed_life_ns / freed, freed), life(site.longest_life_ns, Math.min(freed, 1)), percentText(site.short_count, allocs),
        countText(allocs), bytesText(site.alloc_bytes), countText(site.most_live_count)]);
    }));
}

function timeText(ms) {
  return Math.abs(ms) < 8e15 ? `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC` : '';
}

function drawHeader() {
  const { command, host, rank, ending } = report.process, text = summaryText();
  $('command').textContent = command;
  $('about').textContent = [timeText(report.time.end_unix_ms), host && `host ${host}`, rank !== null && `rank ${rank}`,
    durationText(report.time.duration_ns), ending].filter(Boolean).join('  ·  ');
  $('summary').textContent = text;
  $('summary').className = report.summary?.errors > 0 || (report.summary?.leaked_count > 0 && !running && !killed) ? 'bad' : '';
  $('notes').append(...notesOf(report.process).map((note) => element('li', 'name', note)));
  $('footer').textContent = [report.gpushim && `gpushim ${report.gpushim}`, report.process.pid && `process ${report.process.pid}`].filter(Boolean).join(', ');
  document.title = `${baseName(String(command).split(' ')[0])}: ${text}`;
}

// ---- the whole page ------------------------------------------------------------------------

function fillViews() {
  $('view').replaceChildren(...views.map((view, index) => {
    const option = element('option', '', `${view.title} (${bytesText(view.bytes)})`);
    option.value = String(index);
    return option;
  }));
  $('view').value = String(views.indexOf(state.view));
}

// The processes of the page; another one is shown by reading the page again.
function startChoice() {
  const names = [];
  for (let number = 0; $(number ? `report-${number}` : 'report'); number++) {
    const { process, summary } = number === chosen ? report : part('report', number) ?? { process: { pid: part('timeline-data', number).pid } };
    const rank = process.rank ?? null;
    const fate = process.running ? 'live' : hasLive(process) ? 'live when killed' : 'leaked';
    names.push(`${rank === null ? `process ${process.pid}` : `rank ${rank}`}${summary ? `: ${bytesText(summary.leaked_bytes)} ${fate}` : ''}`);
  }
  if (names.length < 2) return;
  $('choice').hidden = false;
  $('process').append(...names.map((name, number) => {
    const option = element('option', '', name);
    option.value = String(number);
    return option;
  }));
  $('process').value = String(chosen);
  $('process').addEventListener('change', () => {
    window.location.hash = $('process').value;
    window.location.reload();
  });
}

const timelineMemories = timeline ? list(timeline.memories).map(readMemory) : [];

function start() {
  startChoice();
  drawHeader();
  drawMemory();
  drawScopes();
  drawLifetimes();
  drawErrors();
  state.errorStacks = stackLists.length;
  startTimeline();
  for (const [color, word] of [['p0', 'program'], ['l0', 'library'], ['y0', 'Python'], ['top', 'scope']])
    if (frames.some((frame) => frame.color[0] === color[0])) $('legend').append(element('span', color, word));
  $('all-box').hidden = !frames.some((frame) => frame.family);
  if (!$('all-box').hidden) $('legend').append(element('span', 'fold', 'frameworks, folded'));
  const first = views.findIndex((view) => view.sites.length > 0);
  state.view = views[Math.max(first, 0)];
  if (!report.summary) views.shift();
  if (chart.memory) {
    views.push(Object.assign(momentView(), { isTime: true }));
    if (first !== 0) state.view = views[views.length - 1]; // nothing leaked: the peak
  }
  fillViews();
  $('view').addEventListener('change', () => {
    state.view = views[Number($('view').value)];
    state.zoomed = null;
    draw();
  });
  $('unit').addEventListener('change', () => {
    state.unit = $('unit').value;
    state.column = state.unit === 'bytes' ? 0 : 1;
    state.falling = true;
    draw();
  });
  $('search').addEventListener('input', () => {
    state.term = $('search').value.trim().toLowerCase();
    draw();
  });
  $('all').addEventListener('change', () => showAll($('all').checked));
  window.addEventListener('keydown', onPageKey);
  $('controls').addEventListener('submit', (event) => event.preventDefault());
  $('graph').addEventListener('click', (event) => drawn.has(event.target) && choose(drawn.get(event.target)));
  $('graph').addEventListener('keydown', onGraphKey);
  for (const type of ['pointerover', 'focusin']) $('graph').addEventListener(type, onGraphPoint);
  window.addEventListener('resize', drawGraph);
  draw();
}

start();
window.removeEventListener('error', onFailure);

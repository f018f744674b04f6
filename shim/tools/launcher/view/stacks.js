// stacks.js - frames, and stacks as the page shows them: runs of frames of frameworks, allocators and languages'
// libraries are one line, as in the text report (docs/stacks.md). A click on the line shows that run, the
// box "All frames" or the key F shows all. view.js, behind it in the page, has the frames.

const RUN_MIN = 2; // a shorter run is printed (report_stack.c)
const FAMILIES_MAX = 3; // names in a line

const baseName = (path) => path.slice(path.lastIndexOf('/') + 1);

// The components of a path, the last one first, as shown_path.c compares them.
function pathParts(path) {
  const parts = [];
  let takenBack = 0;
  for (const part of path.split('/').reverse()) {
    if (part === '..') takenBack++;
    else if (part !== '' && part !== '.' && --takenBack < 0) {
      parts.push(part);
      takenBack = 0;
    }
  }
  return path.startsWith('/') ? parts : parts.concat(Array(takenBack).fill('..'));
}

// By path: as many of its last components as tell it from the other paths.
function shownPaths(paths) {
  const rows = [...new Set(paths)].map((path) => ({ path, parts: pathParts(path) }));
  for (const row of rows) row.key = row.parts.join('\0') + (row.path.startsWith('/') ? '\0/' : '');
  rows.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const common = (row, other) => {
    let count = 0;
    while (other && count < row.parts.length && row.parts[count] === other.parts[count]) count++;
    return count;
  };
  let before = null; // the last other file
  return new Map(rows.map((row, i) => {
    let next = i + 1;
    while (rows[next]?.key === row.key) next++;
    if (i > 0 && rows[i - 1].key !== row.key) before = rows[i - 1];
    const need = 1 + Math.max(common(row, before), common(row, rows[next]));
    return [row.path, need > row.parts.length ? row.path : row.parts.slice(0, need).reverse().join('/')];
  }));
}

function readFrame(frame) {
  const module = list(report.modules)[frame.module], line = frame.line ? `:${frame.line}` : '', isScope = /^\[scope /.test(frame.function);
  const isPython = frame.address === null && !isScope;
  const code = module ? `${shownPath(module.path)}+${frame.offset}` : '';
  const name = frame.function || (module ? '??' : frame.address || '??');
  const mark = frame.inlined ? ' (inlined)' : '', place = (frame.file ? shownPath(frame.file) + line : code) + mark;
  const origin = isPython ? 'y' : module && module.path === report.process.program ? 'p' : 'l';
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 65521;
  return {
    name, place, label: frame.function || code || name, file: (frame.file ? frame.file + line : code) + mark,
    anyLine: frame.file || (module ? shownPath(module.path) : ''), color: isScope ? 'top' : origin + (hash % 3),
    text: `${name} ${place}`.toLowerCase(), isPython, family: frame.family || '', module: module ? baseName(module.path) : '',
  };
}

// A stack's frames, innermost first. `shown`: from the program's own frame on; `inner`: those of frameworks
// before it; `before` and `after`: those of the CUDA runtime and of the program's start.
function readStack(holder) {
  const known = (number) => frames[number];
  const shown = list(holder.stack).filter(known), full = list(holder.full_stack).filter(known), count = parseInt(holder.inner, 10) || 0;
  const begin = full.findIndex((_, i) => i >= count && shown.length > 0 && shown.every((number, k) => full[i + k] === number));
  if (begin < 0) return { shown, inner: [], before: [], after: [] };
  return { shown, inner: full.slice(begin - count, begin), before: full.slice(0, begin - count), after: full.slice(begin + shown.length) };
}

// The parts of a stack: a frame, or a run that is one line. None of a script that is a framework's own.
function partsOf(numbers) {
  const first = frames[numbers[0]], parts = [], isOwn = first && first.isPython && first.family;
  for (let i = 0, end; i < numbers.length; i = end) {
    end = i;
    while (i > 0 && !isOwn && end < numbers.length && frames[numbers[end]].family) end++;
    if (end - i < RUN_MIN) end = i + 1;
    parts.push(numbers.slice(i, end));
  }
  return parts;
}

const familyNames = (run) => [...new Set(run.map((number) => frames[number].family || frames[number].module).filter(Boolean))].slice(0, FAMILIES_MAX).join(', ');

// "23 frames of PyTorch, CuPy": gs_report_families
const runText = (run) => `${counted(run.length, 'frame')} of ${familyNames(run)}`;

// ---- lists of frames -----------------------------------------------------------------------

const stackLists = []; // those on the page

function fillStack(made, holder, isWhole) {
  const { shown, inner, before, after } = readStack(holder);
  const item = (className, ...cells) => {
    const line = element('li', className);
    line.append(...cells);
    made.append(line);
  };
  const frameLine = (number, at) => {
    const frame = frames[number];
    item(at < 0 ? 'dim' : '', element('span', '', at < 0 ? '' : `#${at}`), element('span', 'name', frame.name), element('span', 'name', frame.file));
  };
  const foldLine = (text, whole) => {
    const opener = element('button', 'site', text);
    opener.setAttribute('aria-expanded', String(!whole));
    opener.addEventListener('click', () => {
      fillStack(made, holder, whole);
      made.focus();
    });
    item('', element('span', ''), opener);
  };
  made.replaceChildren();
  made.tabIndex = -1;
  const parts = partsOf(shown), hasRuns = inner.length > 0 || parts.length < shown.length;
  if (isWhole) {
    if (hasRuns) foldLine('fold the frames of frameworks and libraries', false);
    before.forEach((number) => frameLine(number, -1));
    inner.concat(shown).forEach(frameLine);
    after.forEach((number) => frameLine(number, -1));
  } else {
    let at = 0;
    if (inner.length > 0) foldLine(`... ${runText(inner)}`, true);
    for (const part of parts) {
      if (part.length > 1) foldLine(`... ${runText(part)}`, true);
      else frameLine(part[0], at);
      at += part.length;
    }
  }
  if (holder.truncated) item('dim', element('span', ''), element('span', 'name', '... more (GPUSHIM_STACK=depth)'));
  if (shown.length === 0) item('dim', element('span', ''), element('span', 'name', noStack(holder)));
}

function stackList(holder) {
  const made = element('ol', 'stack');
  fillStack(made, holder, state.all);
  stackLists.push({ made, holder });
  return made;
}

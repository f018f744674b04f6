// page.js - runs the script of a page of gpushim html without a browser, for the end-to-end tests.
//
//   node page.js FOLDER [ACTION...]   FOLDER: of page.py. Does the actions in their order, then
//                                     prints what the page shows, a line for each thing.
//     hash=#N       the page's address ends so, which chooses the process
//     view=N        chooses what is shown       unit=count    by allocations
//     search=TEXT   types into the search       sort=N        clicks the Nth heading
//     open=N        clicks the Nth row          zoom=TEXT     clicks the frame with this text
//     key=KEY       presses a key where the focus is
//     memory=N      chooses the timeline's memory   chart=KEY   presses a key at its chart
//     point=PART    points at a part of the chart           click=PART    clicks there
//     drag=A,B      drags from one part to another          by=owners     divides the timeline by them
//     shift=KEY     presses a key with Shift at the chart   press=ID      clicks a button
//     page=KEY      presses a key of the whole page         tick=ID       ticks or clears a box
//     fold=N        clicks the Nth line that stands for frames, of the stacks of call sites
//
// The elements below know what the script uses, and no way to give them HTML.
'use strict';
const fs = require('fs');
const path = require('path');

const [folder, ...actions] = process.argv.slice(2);
const read = (name) => fs.readFileSync(path.join(folder, name), 'utf8');

class Element {
  constructor(tag) {
    Object.assign(this, {
      tag, childNodes: [], own: '', parentNode: null, className: '', style: {}, attributes: {}, listeners: {},
      namespaceURI: 'svg', hidden: false, value: '', title: '', clientWidth: 1000, tabIndex: -1, open: false, colSpan: 1,
    });
  }
  set textContent(text) {
    this.replaceChildren();
    this.own = String(text);
  }
  get textContent() {
    return this.own + this.childNodes.map((child) => child.textContent).join('');
  }
  take(children) {
    for (const child of children) {
      if (!(child instanceof Element)) throw new Error(`no element: ${child}`);
      child.remove();
      child.parentNode = this;
    }
    return children;
  }
  append(...children) {
    for (const child of this.take(children)) this.childNodes.push(child);
  }
  replaceChildren(...children) {
    for (const child of this.childNodes) child.parentNode = null;
    this.childNodes = [];
    this.own = '';
    this.childNodes = this.take(children);
  }
  remove() {
    if (!this.parentNode) return;
    this.parentNode.childNodes = this.parentNode.childNodes.filter((child) => child !== this);
    this.parentNode = null;
  }
  after(child) {
    const siblings = this.parentNode.childNodes;
    child.parentNode = this.parentNode;
    siblings.splice(siblings.indexOf(this) + 1, 0, child);
  }
  getBoundingClientRect() {
    return { left: 100, top: 0, width: 1000, height: 230 };
  }
  setAttribute(name, value) {
    if (/^on|style|src|href/.test(name)) throw new Error(`attribute ${name}`);
    this.attributes[name] = String(value);
  }
  addEventListener(type, listener) {
    (this.listeners[type] ||= []).push(listener);
  }
  removeEventListener(type, listener) {
    this.listeners[type] = this.listeners[type].filter((one) => one !== listener);
  }
  focus() {
    document.activeElement = this;
    this.fire('focusin');
  }
  fire(type, more) {
    const event = { target: this, type, preventDefault() {}, ...more };
    for (let at = this; at; at = at.parentNode) for (const listener of at.listeners[type] || []) listener(event);
  }
}

for (const name of ['innerHTML', 'outerHTML'])
  Object.defineProperty(Element.prototype, name, { set() { throw new Error(name); } });

const elements = new Map(read('ids').split('\n').map((id) => [id, new Element(id)]));
const byId = (id) => elements.get(id);
const document = { activeElement: null, title: '', getElementById: (id) => byId(id) ?? null, createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => (space === 'svg' ? new Element(tag) : null) };
byId('report').own = read('report.json');
byId('timeline-data').own = read('timeline.json');
for (const id of ['timeline', 'choice', 'tip', 'range']) byId(id).hidden = true;
for (const id of elements.keys()) if (/^(report|timeline-data)-/.test(id)) byId(id).own = read(`${id}.json`);
byId('unit').value = 'bytes';
const window = new Element('window');
window.location = { hash: (actions.find((action) => action.startsWith('hash=')) || 'hash=').slice(5), reload() {} };
new Function('document', 'window', read('view.js'))(document, window);

// ---- actions -------------------------------------------------------------------------------

function type(id, event, value) {
  byId(id).value = value;
  byId(id).fire(event);
}

const elementsOf = (element) => element.childNodes.flatMap((child) => [child, ...elementsOf(child)]);

// The chart has 66 pixels before its areas, and 8 behind them.
const chartAt = (part) => ({ clientX: 100 + 66 + 926 * part, clientY: 200, pointerId: 1 });

const doers = {
  hash() {},
  view: (value) => type('view', 'change', value),
  unit: (value) => type('unit', 'change', value),
  search: (value) => type('search', 'input', value),
  sort: (value) => byId('headings').childNodes[value].childNodes[0].fire('click'),
  open: (value) => byId('rows').childNodes[value].fire('click'),
  zoom: (value) => byId('graph').childNodes.find((frame) => frame.textContent === value).fire('click'),
  memory: (value) => type('memory-shown', 'change', value),
  by: (value) => type('divided', 'change', value),
  chart: (value) => byId('chart').fire('keydown', { key: value }),
  shift: (value) => byId('chart').fire('keydown', { key: value, shiftKey: true }),
  press: (value) => byId(value).fire('click'),
  page: (value) => window.fire('keydown', { key: value }),
  tick: (value) => Object.assign(byId(value), { checked: !byId(value).checked }).fire('change'),
  fold: (value) => elementsOf(byId('rows')).filter((one) => one.tag === 'button' && one.parentNode.tag === 'li')[value].fire('click'),
  point: (value) => byId('chart').fire('pointermove', chartAt(value)),
  click: (value) => ['pointerdown', 'pointerup'].forEach((type) => byId('chart').fire(type, chartAt(value))),
  drag: (value) => ['pointerdown', 'pointermove', 'pointerup'].forEach((type, i) => byId('chart').fire(type, chartAt(value.split(',')[Math.min(i, 1)]))),
  key: (value) => document.activeElement.fire('keydown', { key: value }),
};
for (const action of actions) {
  const at = action.indexOf('=');
  doers[action.slice(0, at)](action.slice(at + 1));
}

// ---- what is shown -------------------------------------------------------------------------

const say = (name, text) => console.log(`${name}: ${text}`);
const words = (element) => element.childNodes.map((child) => child.textContent).join(' | ');

function sayTree(element, name) {
  if (element.childNodes.length === 0 || element.tag === 'li') say(name, element.tag === 'li' ? words(element) : element.textContent);
  else for (const child of element.childNodes) sayTree(child, name);
}

say('title', document.title);
if (!byId('choice').hidden) for (const option of byId('process').childNodes) say('process', option.textContent);
for (const id of ['command', 'about', 'summary', 'footer']) say(id, byId(id).textContent);
for (const note of byId('notes').childNodes) say('note', note.textContent);
for (const row of byId('memory').childNodes) say('memory', words(row));
for (const row of byId('scopes').childNodes) say('scope', words(row));
for (const row of byId('lifetimes').childNodes) say('life', words(row));
for (const error of byId('errors').childNodes) sayTree(error, 'error');
if (!byId('timeline').hidden) {
  for (const option of byId('memory-shown').childNodes) say('timeline', option.textContent);
  for (const area of byId('areas').childNodes)
    say(area.tag === 'text' ? 'tick' : 'area', area.tag === 'text' ? `${area.attributes.class} ${area.textContent}` : `${area.attributes.class} ${area.attributes.d}`);
  for (const shade of byId('segments').childNodes) say('segment', `${shade.attributes.class} ${shade.attributes.d}`);
  say('moment', byId('moment').textContent);
  say('cursor', ((parseFloat(byId('cursor').style.left) - 66) / 9.26).toFixed(2));
  if (!byId('range').hidden) say('range', `${byId('range').style.left} ${byId('range').style.width}`);
  if (!byId('tip').hidden) say('tip', words(byId('tip')));
  say('value', byId('chart').attributes['aria-valuetext']);
  for (const row of byId('shares').childNodes) say('share', words(row));
}
for (const option of byId('view').childNodes) say('option', option.textContent);
say('sum', byId('sum').textContent);
for (const frame of byId('graph').childNodes)
  say('frame', `${frame.attributes['aria-level'] - 1} ${parseFloat(frame.style.left).toFixed(1)} ${parseFloat(frame.style.width).toFixed(1)} ` +
    `${frame.className} | ${frame.textContent}`);
say('legend', byId('legend').childNodes.map((one) => one.textContent).join(', '));
say('shown', byId('frame').textContent);
say('focus', document.activeElement ? document.activeElement.textContent : '');
for (const heading of byId('headings').childNodes) say('heading', `${heading.textContent} ${heading.attributes['aria-sort'] || ''}`);
for (const row of byId('rows').childNodes) {
  if (row.className === 'detail') sayTree(row, 'detail');
  else say('row', words(row));
}
say('more', byId('more').textContent);

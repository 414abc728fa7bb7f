/** More rows unfolded than this at once are no overview. */
const MOST_UNFOLDED = 400;
/** More are no use on paper, and take a browser minutes. */
const MOST_PRINTED = 2000;
/** How wide an axis is on paper, in CSS pixels: about. */
const PAPER_AXIS = 480;
/** Rows drawn beyond those in sight. */
const MARGIN = 12;

const find = (selector) => document.querySelector(selector);

/** An element. Whatever it says is put in as text. */
function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content.filter((it) => it !== undefined));
  return element;
}

const plural = (count, one) => `${count.toLocaleString('en')} ${one}${count === 1 ? '' : 's'}`;

// Times.

const S = 1e9;
const DAY = 86400 * S;
const UNITS = [['s', S], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];
/** How far apart lines of an axis can be: decimal below a second, as clocks have it above. */
const STEPS = [
  ...[1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].flatMap((it) => [it, 2 * it, 5 * it]),
  ...[1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200].map((it) => it * S),
  ...[1, 2, 5, 10, 20, 50, 100, 1000, 1e4].map((it) => it * DAY),
];
const TICK_WIDTH = 80;

/** Where an axis of `width` has a line, and what stands there. */
function ticks(length, width) {
  const least = length / Math.max(1, Math.floor(width / TICK_WIDTH));
  const step = STEPS.find((it) => it >= least && it <= length) ?? STEPS.findLast((it) => it <= length);
  const all = [[0, '0 s']];
  for (let at = step; at <= length; at += step) all.push([at, tickLabel(at, step, length)]);
  return all;
}

function tickLabel(at, step, length) {
  const two = (value) => String(value).padStart(2, '0');
  if (at >= 3600 * S) return `${Math.floor(at / S / 3600)}h ${two(Math.floor(at / S / 60) % 60)}m`;
  if (at >= 60 * S) return `${Math.floor(at / S / 60)}m ${two(Math.floor(at / S) % 60)}s`;
  const [unit, size] = UNITS.find(([, size]) => length >= size);
  const decimals = Math.max(0, Math.ceil(Math.log10(size / step)));
  return `${(at / size).toFixed(decimals)} ${unit}`;
}

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
});

const date = (ns) => new Date(Number(ns / 1000000n));
const epoch = (startup, offset) => BigInt(startup.start_ns) + BigInt(offset);
const seconds = (offset) => `${(offset / S).toFixed(6)} s`;

// A startup: its rows, which of them are shown, and where they are drawn.

const startups = [];
const rowOf = new WeakMap();
const elementOf = new WeakMap();

/** Tells each row its neighbours. */
function link(startup) {
  const above = [];
  const roots = [];
  for (const row of startup.rows) {
    above.length = row.level;
    Object.assign(row, { startup, parent: above.at(-1), children: [], folded: false, at: -1 });
    row.siblings = row.parent ? row.parent.children : roots;
    row.siblings.push(row);
    row.position = row.siblings.length;
    above.push(row);
  }
  if (startup.rows.length > MOST_UNFOLDED) foldMost(startup);
}

/** Leaves open what leads to the longest path and to errors. */
function foldMost(startup) {
  for (const row of startup.rows.toReversed()) {
    row.leads = row.children.some((child) => child.critical || child.failed || child.leads);
    row.folded = row.level > 0 && !row.leads;
  }
}

/** Which rows are shown, from which are folded. */
function flatten(startup) {
  let folded = Infinity;
  startup.shown = startup.rows.filter((row) => {
    row.at = -1;
    if (row.level > folded) return false;
    folded = row.folded ? row.level : Infinity;
    return true;
  });
  startup.shown.forEach((row, at) => { row.at = at; });
  startup.current ??= startup.shown[0];
  while (startup.current.at < 0) startup.current = startup.current.parent;
  startup.grid.setAttribute('aria-rowcount', startup.shown.length + 1);
  startup.body.style.setProperty('--rows', startup.shown.length);
}

function section(startup, number) {
  const id = `startup-${number}`;
  const time = make('time', { datetime: date(BigInt(startup.start_ns)).toISOString() }, startup.when);
  const sum = make('p', { class: 'sum' }, ...summary(startup));
  const header = make('header', {}, make('h2', { id: `${id}-title` }, time), sum, legend(startup.rows));
  startup.axis = make('div', { class: 'axis', 'aria-hidden': 'true' });
  startup.lines = make('div');
  const head = make('div', { role: 'row', class: 'head', 'aria-rowindex': 1 },
    make('div', { role: 'columnheader' }, 'Span'),
    make('div', { role: 'columnheader', class: 'duration' }, 'Duration'),
    make('div', { role: 'columnheader', class: 'share' }, 'Share'),
    make('div', { role: 'columnheader', class: 'time' },
      make('span', { class: 'for-ears' }, 'Time since the start'), startup.axis));
  startup.headgroup = make('div', { role: 'rowgroup', class: 'headgroup' }, head);
  startup.body = make('div', { role: 'rowgroup', class: 'rows' });
  startup.grid = make('div', {
    role: 'treegrid', class: 'grid', 'aria-labelledby': `${id}-title`, 'aria-readonly': 'true',
  }, make('div', { class: 'lines', 'aria-hidden': 'true' }, startup.lines), startup.headgroup, startup.body);
  startup.cut = make('p', { class: 'cut' });
  return make('section', { id, 'aria-labelledby': `${id}-title` },
    header, startup.summary && table(startup.summary, id), startup.grid, startup.cut);
}

/** For each stage how long it took the servers. */
function table({ servers, rows, others }, id) {
  const columns = ['Stage', 'Count', 'Median', 'Maximum', 'Slowest', 'Node'];
  const head = columns.map((it) => make('th', { scope: 'col' }, it));
  const body = rows.map(([stage, ...cells]) =>
    make('tr', {}, make('th', { scope: 'row' }, stage), ...cells.map((it) => make('td', {}, it))));
  return make('div', { class: 'summary', role: 'group', tabindex: 0, 'aria-labelledby': `${id}-summary` },
    make('table', {}, make('caption', { id: `${id}-summary` }, `Stages of ${plural(servers, 'server')}`),
      make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...body)),
    others && make('p', { class: 'more' }, others));
}

/** What there is to say of a startup in a line. */
function summary(startup) {
  const some = (names, one) => {
    if (names.length === 0) return undefined;
    const more = names.length > 6 ? `, and ${names.length - 5} more` : '';
    const listed = more ? names.slice(0, 5) : names;
    return make('span', {}, `${plural(names.length, one)}: ${listed.join(', ')}${more}`);
  };
  const errors = startup.rows.filter((row) => row.failed).length;
  return [
    make('b', {}, startup.length),
    startup.failed ? make('span', { class: 'failed-word' }, `✗ ${startup.outcome}`)
      : startup.outcome === 'ready' ? make('span', { class: 'fine' }, '✓ ready')
      : startup.outcome && make('span', {}, startup.outcome),
    some(startup.servers, 'server'),
    startup.nodes.length > 1 ? some(startup.nodes, 'node') : undefined,
    make('span', {}, plural(startup.rows.length, 'span')),
    errors > 0 ? make('span', { class: 'failed-word' }, plural(errors, 'error')) : undefined,
    make('span', { class: 'trace' }, startup.title),
  ].filter((it) => it);
}

/** What the forms of the bars mean, of those that are there. */
function legend(rows) {
  const forms = [
    ['critical', 'the longest path', (row) => row.critical],
    ['', 'beside it', (row) => !row.critical],
    ['failed', 'error', (row) => row.failed],
    ['open', 'not ended', (row) => row.end === undefined],
  ];
  const items = forms.filter(([, , is]) => rows.some(is)).map(([form, words]) =>
    make('li', { class: form }, make('span', { class: 'bar', 'aria-hidden': 'true' }), words));
  return make('ul', { class: 'legend', 'aria-label': 'What the bars mean' }, ...items);
}

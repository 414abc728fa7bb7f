// Rows. Those in sight are in the document, and the one that has the focus.

let printing = false;

function element(row) {
  const name = make('div', { role: 'rowheader', class: 'name' },
    make('span', { class: 'indent', 'aria-hidden': 'true' }),
    make('span', { class: 'twist', 'aria-hidden': 'true' }),
    make('span', { class: 'label' }));
  if (row.outcome) {
    name.append(make('span', { class: 'outcome' }, ` ${row.failed ? '✗ ' : ''}${row.outcome}`));
  }
  const made = make('div', {
    role: 'row', class: 'row',
    'aria-level': row.level + 1, 'aria-setsize': row.siblings.length, 'aria-posinset': row.position,
  }, name,
  make('div', { role: 'gridcell', class: 'duration' }, row.duration),
  make('div', { role: 'gridcell', class: 'share' }, row.share),
  make('div', { role: 'gridcell', class: 'time' }, make('span', { class: 'bar', 'aria-hidden': 'true' }),
    make('span', { class: 'for-ears' }, inWords(row))));
  const whole = row.startup.length_ns || 1;
  const end = row.end ?? row.startup.length_ns;
  made.style.setProperty('--level', row.level);
  made.style.setProperty('--from', row.start / whole);
  made.style.setProperty('--width', Math.max(0, end - row.start) / whole);
  made.classList.toggle('critical', row.critical);
  made.classList.toggle('failed', row.failed);
  made.classList.toggle('open', row.end === undefined);
  made.classList.toggle('empty', end <= row.start);
  rowOf.set(made, row);
  elementOf.set(row, made);
  return made;
}

/** What the bar shows. */
function inWords(row) {
  const end = row.end === undefined ? 'and not ended' : `to ${seconds(row.end)}`;
  return `from ${seconds(row.start)} ${end}${row.critical ? ', on the longest path' : ''}`;
}

/** Brings what can change up to date. */
function update(row, made) {
  made.style.setProperty('--place', row.at);
  made.setAttribute('aria-rowindex', row.at + 2);
  made.tabIndex = row === row.startup.current ? 0 : -1;
  if (row.children.length > 0) made.setAttribute('aria-expanded', !row.folded);
  made.classList.toggle('chosen', row === about.row);
  made.classList.toggle('found', row === search.matches[search.at]);
  const label = made.querySelector('.label');
  if (label.dataset.words !== search.words) {
    label.dataset.words = search.words;
    label.replaceChildren(...marked(row.label, search.words));
  }
}

/** The text, with what was searched for marked. */
function marked(text, words) {
  const at = words ? text.toLowerCase().indexOf(words) : -1;
  // Some letters change their length with their case.
  if (at < 0 || text.toLowerCase().length !== text.length) return [text];
  const end = at + words.length;
  return [text.slice(0, at), make('mark', {}, text.slice(at, end)), text.slice(end)];
}

function draw() {
  const views = startups.map((startup) => ({ startup, wanted: printing ? toPrint(startup) : inSight(startup) }));
  for (const { startup, wanted } of views) {
    const keep = new Set(wanted);
    for (const child of [...startup.body.children]) {
      if (!keep.has(rowOf.get(child))) child.remove();
    }
    let next = startup.body.firstChild;
    for (const row of wanted) {
      const made = elementOf.get(row) ?? element(row);
      update(row, made);
      // The one that has the focus is never moved: it would lose it.
      if (made === next) next = next.nextSibling;
      else startup.body.insertBefore(made, next);
    }
  }
}

/** Where the rows begin on the screen, and how high one is. */
function measure(startup) {
  const { top, height } = startup.body.getBoundingClientRect();
  return { top, height: height / Math.max(1, startup.shown.length) };
}

function inSight(startup) {
  const { top, height } = measure(startup);
  const first = Math.max(0, Math.floor(-top / height) - MARGIN);
  const end = Math.max(0, Math.ceil((innerHeight - top) / height) + MARGIN);
  const wanted = new Set(startup.shown.slice(first, end));
  if (startup.current) wanted.add(startup.current);
  return [...wanted].sort((a, b) => a.at - b.at);
}

function toPrint(startup) {
  const before = startups.slice(0, startup.number - 1).reduce((sum, it) => sum + it.shown.length, 0);
  return startup.shown.slice(0, Math.max(0, MOST_PRINTED - before));
}

let drawing = 0;
function drawSoon() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    draw();
  });
}

function drawAxes() {
  for (const { axis, lines, length_ns: length } of startups) {
    const width = printing ? PAPER_AXIS : axis.offsetWidth;
    axis.replaceChildren();
    lines.replaceChildren();
    for (const [at, label] of ticks(length, width)) {
      const place = length > 0 ? at / length : 0;
      const edge = at === 0 ? 'first' : (1 - place) * width < 30 ? 'last' : '';
      for (const made of [make('span', { class: `tick ${edge}` }, label), make('i')]) {
        made.style.setProperty('--at', place);
        (made.localName === 'i' ? lines : axis).append(made);
      }
    }
  }
}

// Going about.

/** Scrolls so that the row is in sight, in the middle if need be; unfolds what is around it. */
function reveal(row, inMiddle = false) {
  if (row.at < 0) {
    for (let it = row.parent; it; it = it.parent) it.folded = false;
    flatten(row.startup);
  }
  const { top: first, height } = measure(row.startup);
  const top = first + row.at * height;
  const ceiling = find('.tools').offsetHeight + row.startup.headgroup.offsetHeight;
  const floor = innerHeight - about.panel.offsetHeight;
  const isAway = top < ceiling || top + height > floor;
  if (isAway && inMiddle) scrollBy(0, top - (ceiling + floor - height) / 2);
  else if (top < ceiling) scrollBy(0, top - ceiling);
  else if (top + height > floor) scrollBy(0, top + height - floor);
  draw();
}

function focus(row) {
  row.startup.current = row;
  reveal(row);
  elementOf.get(row).focus({ preventScroll: true });
}

function fold(row, folded) {
  row.folded = folded;
  flatten(row.startup);
  draw();
}

function foldAll(folded) {
  for (const startup of startups) {
    for (const row of startup.rows) row.folded = folded && row.children.length > 0;
    flatten(startup);
  }
  draw();
}

const isOpen = (row) => row.children.length > 0 && !row.folded;

/** What a key does to a row; false if nothing. */
function press(key, row) {
  const { shown } = row.startup;
  const page = Math.max(1, Math.floor(innerHeight / measure(row.startup).height) - 5);
  const go = (at) => focus(shown[Math.min(Math.max(at, 0), shown.length - 1)]);
  switch (key) {
    case 'ArrowDown': return go(row.at + 1);
    case 'ArrowUp': return go(row.at - 1);
    case 'PageDown': return go(row.at + page);
    case 'PageUp': return go(row.at - page);
    case 'Home': return go(0);
    case 'End': return go(shown.length - 1);
    case 'ArrowRight':
      if (isOpen(row)) return focus(row.children[0]);
      return row.folded ? fold(row, false) : undefined;
    case 'ArrowLeft':
      if (isOpen(row)) return fold(row, true);
      return row.parent ? focus(row.parent) : undefined;
    case ' ': return row.children.length > 0 ? fold(row, !row.folded) : undefined;
    case 'Enter':
      tell(row);
      return about.title.focus();
    default: return false;
  }
}

// Search. It knows the rows that are folded and those that are not drawn.

const search = {
  field: find('input'), found: find('#found'), words: '', matches: [], at: -1,
  /** What was unfolded for the match, to be folded again when it goes on. */
  unfolded: [],
};

function text(row) {
  row.text ??= [row.label, row.name, row.server, row.node, row.outcome, row.error, row.pid,
    ...row.attributes.flat()].filter((it) => it !== undefined).join('\n').toLowerCase();
  return row.text;
}

function searchFor(words) {
  search.words = words.trim().toLowerCase();
  search.matches = search.words
    ? startups.flatMap(({ rows }) => rows.filter((row) => text(row).includes(search.words)))
    : [];
  search.at = -1;
  for (const button of document.querySelectorAll('.previous, .next')) {
    button.disabled = search.matches.length === 0;
  }
  goToMatch(1);
}

function goToMatch(step) {
  const { matches, unfolded } = search;
  for (const row of unfolded.splice(0)) row.folded = true;
  startups.forEach(flatten);
  if (matches.length === 0) {
    search.found.textContent = search.words ? 'no span has it' : '';
    return draw();
  }
  search.at = (search.at + step + matches.length) % matches.length;
  const row = matches[search.at];
  for (let it = row.parent; it; it = it.parent) if (it.folded) unfolded.push(it);
  row.startup.current = row;
  reveal(row, true);
  const count = `${(search.at + 1).toLocaleString('en')} of ${matches.length.toLocaleString('en')}`;
  search.found.replaceChildren(count, make('span', { class: 'for-ears' }, `: ${row.label}, ${row.duration}`));
}

function leaveSearch() {
  search.unfolded = [];
  const row = search.matches[search.at] ?? startups[0]?.current;
  search.field.value = '';
  searchFor('');
  if (row) focus(row);
}

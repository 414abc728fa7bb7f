// All about one span.

const about = { panel: find('.about'), title: find('#about'), facts: find('.facts'), row: undefined };

function facts(row) {
  const { startup } = row;
  const at = (offset) => {
    const ns = epoch(startup, offset);
    return `${seconds(offset)} · ${CLOCK.format(date(ns))} · ${ns} ns`;
  };
  const share = row.share ? `, ${row.share} of the startup` : '';
  return [
    ['Span', row.name],
    ['Start', at(row.start)],
    ['End', row.end === undefined ? 'not ended' : at(row.end)],
    ['Duration', `${row.duration}${share}${row.critical ? ', on the longest path' : ''}`],
    ['Outcome', row.outcome],
    ['Error', row.error],
    ['Server', row.server],
    ['Node', row.node],
    ['Process', row.pid?.toString()],
  ].filter(([, text]) => text);
}

function list(pairs) {
  return make('dl', {}, ...pairs.flatMap(([term, text]) => [
    make('dt', {}, term), make('dd', term === 'Error' ? { class: 'wrong' } : {}, text)]));
}

function tell(row) {
  hideTooltip();
  about.row = row;
  about.title.textContent = row.label;
  about.facts.replaceChildren(make('div', {}, list(facts(row))));
  if (row.attributes.length > 0) {
    about.facts.append(make('div', {}, make('h3', {}, 'Attributes'), list(row.attributes)));
  }
  about.facts.scrollTop = 0;
  about.panel.hidden = false;
  document.body.classList.add('with-about');
  row.startup.current = row;
  reveal(row);
}

function closeAbout() {
  const { row } = about;
  const hadFocus = about.panel.contains(document.activeElement);
  about.row = undefined;
  about.panel.hidden = true;
  document.body.classList.remove('with-about');
  if (hadFocus) focus(row);
  else draw();
}

// The tooltip.

const tooltip = { box: find('#tooltip'), row: undefined, timer: 0 };

function showTooltip(row, x) {
  clearTimeout(tooltip.timer);
  if (tooltip.row === row) return;
  hideTooltip();
  const element = elementOf.get(row);
  const end = row.end === undefined ? 'not ended' : seconds(row.end);
  const words = [
    `${row.duration}${row.share ? `, ${row.share}` : ''}${row.critical ? ', on the longest path' : ''}`,
    `${seconds(row.start)} – ${end}`,
    [row.server, row.node && `on ${row.node}`, row.pid && `process ${row.pid}`].filter((it) => it).join(', '),
  ];
  tooltip.box.replaceChildren(make('b', {}, row.label),
    ...words.filter((it) => it).map((it) => make('span', {}, it)));
  if (row.outcome || row.error) {
    const wrong = [row.outcome, row.error?.slice(0, 300)].filter((it) => it).join(': ');
    tooltip.box.append(make('span', row.failed ? { class: 'wrong' } : {}, wrong));
  }
  tooltip.row = row;
  tooltip.box.hidden = false;
  element.setAttribute('aria-describedby', 'tooltip');
  const { top, bottom } = element.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tooltip.box;
  const left = x + 14 + width < innerWidth ? x + 14 : x - 14 - width;
  const below = bottom + 6;
  const fits = below + height < innerHeight - about.panel.offsetHeight;
  tooltip.box.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  tooltip.box.style.top = `${fits ? below : Math.max(8, top - 6 - height)}px`;
}

function hideTooltip() {
  clearTimeout(tooltip.timer);
  if (tooltip.row) elementOf.get(tooltip.row)?.removeAttribute('aria-describedby');
  tooltip.row = undefined;
  tooltip.box.hidden = true;
}

/** Leaves the time to move onto it. */
function hideTooltipSoon() {
  clearTimeout(tooltip.timer);
  tooltip.timer = setTimeout(hideTooltip, 150);
}

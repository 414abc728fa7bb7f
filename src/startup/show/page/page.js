// What there is to listen to.

function rowAt(event) {
  const made = event.target.closest?.('.row');
  return made ? rowOf.get(made) : undefined;
}

function listen() {
  const main = find('main');
  main.addEventListener('click', (event) => {
    const row = rowAt(event);
    if (!row) return;
    if (event.target.closest('.twist') && row.children.length > 0) fold(row, !row.folded);
    else tell(row);
  });
  main.addEventListener('keydown', (event) => {
    const row = rowAt(event);
    if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
    if (press(event.key, row) !== false) event.preventDefault();
  });
  main.addEventListener('focusin', (event) => {
    const row = rowAt(event);
    if (!row) return;
    search.unfolded = [];
    if (row.startup.current !== row) {
      row.startup.current = row;
      draw();
    }
    if (!event.target.matches(':focus-visible')) return;
    if (about.row) tell(row);
    else showTooltip(row, event.target.querySelector('.bar').getBoundingClientRect().left);
  });
  main.addEventListener('focusout', hideTooltipSoon);
  main.addEventListener('pointerover', (event) => {
    const row = event.pointerType === 'mouse' ? rowAt(event) : undefined;
    if (row) showTooltip(row, event.clientX);
  });
  main.addEventListener('pointerout', (event) => { if (event.pointerType === 'mouse') hideTooltipSoon(); });
  tooltip.box.addEventListener('pointerenter', () => clearTimeout(tooltip.timer));
  tooltip.box.addEventListener('pointerleave', hideTooltipSoon);
  find('.close').addEventListener('click', closeAbout);
  find('.unfold').addEventListener('click', () => foldAll(false));
  find('.tools .fold').addEventListener('click', () => foldAll(true));
  find('.previous').addEventListener('click', () => goToMatch(-1));
  find('.next').addEventListener('click', () => goToMatch(1));
  search.field.addEventListener('input', () => searchFor(search.field.value));
  search.field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') goToMatch(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape' || event.key === 'ArrowDown') leaveSearch();
    else return;
    event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
    const keys = find('.keys');
    if (event.key === '/' && event.target !== search.field) {
      search.field.focus();
      search.field.select();
      event.preventDefault();
    } else if (event.key === 'Escape') {
      if (tooltip.row) hideTooltip();
      else if (keys.open) keys.open = false;
      else if (about.row) closeAbout();
    }
  });
  addEventListener('scroll', () => {
    if (tooltip.row && !elementOf.get(tooltip.row).matches(':focus')) hideTooltip();
    drawSoon();
  }, { passive: true });
  addEventListener('beforeprint', () => {
    printing = true;
    for (const startup of startups) {
      const printed = toPrint(startup).length;
      startup.cut.textContent = printed < startup.shown.length
        ? `Of ${plural(startup.shown.length, 'row')} the first ${printed.toLocaleString('en')} are printed. `
          + 'To print others, fold what is before them.'
        : '';
    }
    drawAxes();
    draw();
  });
  addEventListener('afterprint', () => {
    printing = false;
    drawAxes();
    draw();
  });
  const widths = new ResizeObserver(() => {
    drawAxes();
    drawSoon();
  });
  for (const { axis } of startups) widths.observe(axis);
  addEventListener('resize', drawSoon);
}

function contents() {
  const links = startups.map((startup) => make('li', {}, make('a', { href: `#startup-${startup.number}` },
    make('span', { class: 'when' }, startup.when), ...summary(startup).slice(0, 3))));
  return make('ol', {}, ...links);
}

function main() {
  const { notes, startups: given } = JSON.parse(find('#data').textContent);
  find('.notes').append(...notes.map((note) => make('li', {}, note)));
  find('.notes').hidden = notes.length === 0;
  given.forEach((startup, index) => {
    startup.number = index + 1;
    startup.when = WHEN.format(date(BigInt(startup.start_ns)));
    link(startup);
    startups.push(startup);
    find('main').append(section(startup, startup.number));
    flatten(startup);
  });
  if (startups.length !== 1) find('h1').textContent = plural(startups.length, 'startup');
  if (startups.length > 1) {
    find('nav').append(contents());
    find('nav').hidden = false;
  }
  const [first] = startups;
  if (first) {
    document.title = startups.length > 1 ? find('h1').textContent : `Startup of ${first.when}`;
    find('.tools').hidden = false;
  }
  drawAxes();
  draw();
  listen();
}

main();

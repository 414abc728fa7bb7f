//! The comparison for people: what got slower is the first thing they see.

use anstyle::{AnsiColor, Style};

use super::{Compared, Comparison, Difference, Times};
use crate::columns::{Column, lines};
use crate::show::stages::{OWN_REPORT, UNTIL_READY, timed};
use crate::show::startup::Startup;
use crate::show::text::{FAINT, NARROW, STRONG, heading, painted, shortened};
use crate::waterfall::Look;
use crate::words::{counted, duration, wrapped};

const SLOWER: Style = AnsiColor::Red.on_default();
const FASTER: Style = AnsiColor::Green.on_default();

/// More servers than this are not all drawn.
const FEW: usize = 8;
/// So many stages of each are drawn: of few servers, and of more.
const MOST_STAGES: usize = 16;
const FEWER_STAGES: usize = 4;

/// `trace` and enough of its id to tell two apart.
const SHORT_TITLE: usize = 14;

/// A difference that is smaller than either is none.
const LEAST_NS: i128 = 1_000_000;
const LEAST_PERCENT: f64 = 1.0;
/// What one stage is said to be most of.
const MOST: f64 = 0.5;

pub fn text(before: &Startup, now: &Startup, comparison: &Comparison, look: &Look) -> String {
    let mut text = String::new();
    for (when, startup) in [("before", before), ("now", now)] {
        let title = startup.title();
        let title = title.get(..SHORT_TITLE).unwrap_or(&title);
        text.push_str(&heading(&format!("{when}: {title}"), startup, &timed(startup), look));
    }
    text.push('\n');
    let (verdict, style) = match &comparison.incomparable {
        Some(why) => (why.clone(), Style::new()),
        None => (verdict(comparison, look.unicode), style(comparison.total)),
    };
    text.push_str(&painted(style, &wrapped(&verdict, look.width, look.unicode), look));
    for (only, when) in [(&comparison.only_before, "before"), (&comparison.only_now, "now")] {
        if !only.is_empty() {
            let words = format!("only {when}: {}", only.join(", "));
            text.push_str(&wrapped(&words, look.width, look.unicode));
        }
    }
    text.push('\n');
    text.push_str(&table(comparison, look));
    text
}

/// How much slower, and where most of it is.
fn verdict(comparison: &Comparison, unicode: bool) -> String {
    let total = comparison.total;
    let by_ns = total.slower_by_ns();
    if !matters(total) {
        let [before, now] =
            [total.before_ns, total.now_ns].map(|ns| duration(ns.unwrap_or(0), unicode));
        return format!("as fast as before: {now}, before {before}");
    }
    let how = if by_ns > 0 { "slower" } else { "faster" };
    let by = duration(by_ns.saturating_abs(), unicode);
    let percent = total.percent().map(|_| format!(" ({})", percent(total))).unwrap_or_default();
    let most = match cause(comparison) {
        Some((server, stage)) => {
            let whose = server.map(|it| format!("{}'s ", it.server.name)).unwrap_or_default();
            let by = signed(stage.times.slower_by_ns(), unicode);
            format!(", most of all in {whose}{}: {by}", stage.place)
        }
        None => String::new(),
    };
    format!("{by} {how}{percent}{most}")
}

/// The stage that is most of the difference, as deep as it goes.
fn cause(comparison: &Comparison) -> Option<(Option<&Compared>, &Difference)> {
    let total_ns = comparison.total.slower_by_ns();
    let share = |it: &Difference, of_ns: i128| it.times.slower_by_ns() as f64 / of_ns as f64;
    let is_no_wait = |it: &&Difference| {
        !["wait_for_servers", "unfinished", OWN_REPORT].contains(&it.place.as_str())
    };
    let own = comparison.supervisor.iter().filter(is_no_wait).map(|stage| (None, stage));
    let of_servers = comparison.servers.iter().flat_map(|server| {
        server.stages.iter().filter(is_no_wait).map(move |stage| (Some(server), stage))
    });
    let all: Vec<(Option<&Compared>, _)> = own.chain(of_servers).collect();
    let largest = |one: &f64, other: &f64| one.total_cmp(other);
    let (server, mut stage) = all
        .into_iter()
        .max_by(|(_, one), (_, other)| largest(&share(one, total_ns), &share(other, total_ns)))
        .filter(|(_, stage)| share(stage, total_ns) > MOST)?;
    let siblings = server.map_or(&comparison.supervisor, |server| &server.stages);
    loop {
        let by_ns = stage.times.slower_by_ns();
        let beneath = |it: &&Difference| {
            let rest = it.place.strip_prefix(stage.place.as_str());
            rest.is_some_and(|rest| rest.starts_with(" / "))
        };
        let deeper = siblings
            .iter()
            .filter(beneath)
            .max_by(|one, other| largest(&share(one, by_ns), &share(other, by_ns)));
        match deeper {
            Some(deeper) if share(deeper, by_ns) > MOST => stage = deeper,
            _ => return Some((server, stage)),
        }
    }
}

/// One table, so that all columns stand below each other.
fn table(comparison: &Comparison, look: &Look) -> String {
    let mut rows = vec![row("all", comparison.total, STRONG)];
    rows.extend(stages(&comparison.supervisor, MOST_STAGES, look));
    let servers = comparison.servers.as_slice();
    if servers.len() > 1 {
        rows.push(Row::words(""));
        let (ready, others): (Vec<_>, Vec<_>) =
            comparison.stages.iter().cloned().partition(|stage| stage.place == UNTIL_READY);
        let name = format!("median of {} servers", servers.len());
        match ready.first() {
            Some(ready) => rows.push(row(&name, ready.times, STRONG)),
            None => rows.push(Row::words(&name)),
        }
        rows.extend(stages(&others, MOST_STAGES, look));
    }
    let most_stages = if servers.len() > FEW { FEWER_STAGES } else { MOST_STAGES };
    for server in servers.iter().take(FEW) {
        rows.push(Row::words(""));
        let replicas = match server.replicas {
            [1, 1] => String::new(),
            [before, now] if before == now => format!(", median of {now}"),
            [before, now] => format!(", median of {before} before and {now} now"),
        };
        rows.push(row(&format!("{}{replicas}", server.server.name), server.total, STRONG));
        rows.extend(stages(&server.stages, most_stages, look));
    }
    if let Some(next) = servers.get(FEW) {
        let more = counted(servers.len().saturating_sub(FEW), "more server", "more servers");
        let by = signed(next.total.slower_by_ns(), look.unicode);
        rows.push(Row::words(""));
        rows.push(Row::words(&format!("{more}, each {by} at most")));
    }
    draw(rows, look)
}

fn stages(stages: &[Difference], most: usize, look: &Look) -> Vec<Row> {
    let drawn = stages.iter().take(most).map(|stage| {
        let name = format!("  {}", shortened(&stage.place, look));
        row(&name, stage.times, style(stage.times))
    });
    let mut rows: Vec<_> = drawn.collect();
    let more = stages.len().saturating_sub(most);
    if more > 0 {
        rows.push(Row::words(&format!("  {}", counted(more, "more stage", "more stages"))));
    }
    rows
}

struct Row {
    name: String,
    times: Option<Times>,
    style: Style,
}

impl Row {
    fn words(words: &str) -> Self {
        Self { name: words.to_owned(), times: None, style: FAINT }
    }
}

fn row(name: &str, times: Times, style: Style) -> Row {
    Row { name: name.to_owned(), times: Some(times), style }
}

fn draw(rows: Vec<Row>, look: &Look) -> String {
    let has_percent = look.width >= NARROW;
    let mut columns = vec![
        Column::Text(""),
        Column::Number("before"),
        Column::Number("now"),
        Column::Number("change"),
    ];
    if has_percent {
        columns.push(Column::Number(""));
    }
    let time = |ns: Option<i128>| ns.map_or("-".to_owned(), |ns| duration(ns, look.unicode));
    let cells = |row: &Row| {
        let mut cells = vec![row.name.clone()];
        if let Some(times) = row.times {
            cells.extend([time(times.before_ns), time(times.now_ns)]);
            cells.push(signed(times.slower_by_ns(), look.unicode));
            cells.extend(has_percent.then(|| percent(times)));
        }
        cells
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let styles = std::iter::once(FAINT).chain(rows.iter().map(|row| row.style));
    let mut text = String::new();
    for (line, style) in lines(&columns, &cells, look.width, look.unicode).iter().zip(styles) {
        text.push_str(&painted(style, line, look));
        text.push('\n');
    }
    text
}

fn matters(times: Times) -> bool {
    let share = times.percent().is_none_or(|percent| percent.abs() >= LEAST_PERCENT);
    share && times.slower_by_ns().saturating_abs() >= LEAST_NS
}

fn style(times: Times) -> Style {
    match (matters(times), times.slower_by_ns() > 0) {
        (false, _) => Style::new(),
        (true, true) => SLOWER,
        (true, false) => FASTER,
    }
}

fn signed(ns: i128, unicode: bool) -> String {
    let plus = if ns > 0 { "+" } else { "" };
    format!("{plus}{}", duration(ns, unicode))
}

fn percent(times: Times) -> String {
    match (times.before_ns, times.now_ns) {
        (None, _) => "new".to_owned(),
        (_, None) => "gone".to_owned(),
        _ => times.percent().map_or(String::new(), |percent| format!("{percent:+.0}%")),
    }
}

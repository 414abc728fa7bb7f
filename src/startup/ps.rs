//! `gym-startup ps`: the stamped servers of this machine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::ExitCode;

use gym_stamp::contract::MainStart;
use gym_stamp::timeline::{Clock, SystemClock};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::args;
use crate::columns::{self, Column};
use crate::proc;
use crate::say::say;
use crate::stamped::{Census, Stamped, unreadable};
use crate::stdout::print_text;
use crate::terminal;
use crate::words::{duration, fit, harmless};

/// Names are cut to as many columns.
const LONGEST_NAME: usize = 40;

/// Of a launch in setup, and of a server that was launched without gym-stamp.
const NOT_STAMPED: &str = "the end of its setup is not stamped yet";

pub fn ps(args: &args::Ps) -> ExitCode {
    let census = Census::now();
    // No stamp that was read is later.
    let now_ns = SystemClock.now_ns();
    let mut parents = HashMap::new();
    let parent = |pid| *parents.entry(pid).or_insert_with(|| Some(proc::process(pid)?.parent));
    let mut rows: Vec<_> =
        servers(census.stamped, parent).iter().map(|server| Row::new(server, now_ns)).collect();
    rows.sort_by_key(|row| (row.spawn_ns.is_none(), row.spawn_ns, row.pid));

    let text = match args.json {
        true => serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n",
        false => table(&rows, now_ns),
    };
    let status = print_text(&text);
    if rows.is_empty() {
        say("no process that can be seen is stamped");
    }
    if census.unreadable > 0 {
        say(unreadable(census.unreadable));
    }
    if !proc::is_of_our_namespace() {
        say("/proc is that of another PID namespace, and so are the PIDs");
    } else if !Path::new("/proc/1").exists() {
        // It is always there.
        say("processes of other users are hidden here (hidepid): run as root to see them");
    }
    status
}

/// One process for each server: whatever has the stamps of a process above it is part of that one's
/// server, and of a launch that nobody has stamped the end of, it is the process that came first.
/// The shells and pipes of a launch go for its server.
fn servers(stamped: Vec<Stamped>, mut parent: impl FnMut(i32) -> Option<i32>) -> Vec<Stamped> {
    let by_pid: HashMap<_, _> = stamped.iter().map(|it| (it.pid(), it)).collect();
    let mut is_below_its_like = |it: &Stamped| {
        let mut seen = HashSet::new();
        let mut above = it.process.parent;
        while seen.insert(above) {
            match by_pid.get(&above) {
                Some(other) if other.has_stamps_of(it) => return true,
                _ => above = parent(above).unwrap_or_default(),
            }
        }
        false
    };
    let mut tops: Vec<_> = stamped.iter().filter(|it| !is_below_its_like(it)).cloned().collect();
    tops.sort_by_key(|it| (Reverse(it.setup_done.is_set()), it.process.start_ticks, it.pid()));
    let mut launches = HashSet::new();
    tops.retain(|it| launches.insert(it.spawn.clone()) || it.setup_done.is_set());
    tops
}

/// What is told of a server; times are nanoseconds since the epoch, or lengths of time in them.
#[derive(Debug, Serialize)]
struct Row {
    pid: i32,
    name: String,
    worker: bool,
    /// What servers read in the stamps, and `null` where they read no time.
    spawn_ns: Option<u64>,
    setup_done_ns: Option<u64>,
    serve_ns: Option<u64>,
    /// When the process itself was started, to a hundredth of a second.
    process_start_ns: Option<u64>,
    /// For all that the stamps tell: without gym-stamp nothing says when it was done.
    in_setup: bool,
    venv_setup_ns: Option<u64>,
    /// Since its setup was done; without such a stamp since the spawn, and where that is not known
    /// either, since the process was started.
    running_ns: Option<u64>,
    ignored: Option<String>,
    /// As they stand in its environment.
    environment: BTreeMap<&'static str, String>,
}

impl Row {
    fn new(server: &Stamped, now_ns: u64) -> Self {
        let in_setup = server.is_in_setup(now_ns);
        let process_start_ns = proc::start_ns(server.process.start_ticks);
        let (venv_setup_ns, since) = match server.reading(now_ns) {
            MainStart::SetupSeen { spawn_ns, setup_done_ns } => {
                (setup_done_ns.checked_sub(spawn_ns), Some(setup_done_ns))
            }
            MainStart::SpawnSeen { spawn_ns, .. } if in_setup => (None, Some(spawn_ns)),
            _ => (None, process_start_ns),
        };
        Self {
            pid: server.pid(),
            name: server.name(),
            worker: server.worker,
            spawn_ns: server.spawn.ns(),
            setup_done_ns: server.setup_done.ns(),
            serve_ns: server.serve.ns(),
            process_start_ns,
            in_setup,
            venv_setup_ns,
            running_ns: since.and_then(|since| now_ns.checked_sub(since)),
            ignored: server.ignored(now_ns),
            environment: server.variables().collect(),
        }
    }
}

fn table(rows: &[Row], now_ns: u64) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let unicode = terminal::is_unicode(&|name| std::env::var_os(name));
    let zone = TimeZone::system();
    let length = |ns: Option<u64>| ns.map(|ns| duration(ns.into(), unicode)).unwrap_or_default();
    let columns = [
        Column::Number("PID"),
        Column::Text("NAME"),
        Column::Text("SPAWNED"),
        Column::Number("VENV SETUP"),
        Column::Number("SINCE"),
        Column::Text(""),
    ];
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let name = harmless(&row.name, unicode);
            let name = fit(&name, LONGEST_NAME, unicode);
            vec![
                row.pid.to_string(),
                if row.worker { format!("{name} (worker)") } else { name.into_owned() },
                row.spawn_ns.and_then(|ns| local_time(ns, now_ns, &zone)).unwrap_or_default(),
                length(row.venv_setup_ns),
                length(row.running_ns),
                match &row.ignored {
                    None if row.in_setup => NOT_STAMPED.to_owned(),
                    ignored => ignored.clone().unwrap_or_default(),
                },
            ]
        })
        .collect();
    // Why a stamp is ignored is not cut, however long the line.
    columns::lines(&columns, &rows, usize::MAX, unicode).join("\n") + "\n"
}

/// The time, with its date where that is not today's; none for more than could be read.
fn local_time(ns: u64, now_ns: u64, zone: &TimeZone) -> Option<String> {
    if ns == u64::MAX {
        return None;
    }
    let local = |ns: u64| {
        let time = Timestamp::from_nanosecond(ns.into()).ok()?;
        Some(time.to_zoned_datetime(zone.clone()))
    };
    let time = local(ns)?;
    let today = local(now_ns)?.date();
    let format = if time.date() == today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    Some(time.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_date_unless_it_is_today() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now_ns = 1_796_103_000_000_000_000;
        for (ns, text) in [
            (1_796_075_999_999_999_999, "2026-11-30 23:59:59"),
            (1_796_076_000_000_000_000, "00:00:00"),
            (1, "1970-01-01 02:00:00"),
        ] {
            assert_eq!(local_time(ns, now_ns, &zone).as_deref(), Some(text), "{ns}");
        }
        assert_eq!(local_time(u64::MAX, now_ns, &zone), None);
    }
}

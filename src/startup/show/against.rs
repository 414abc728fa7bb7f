//! How one startup differs from another, stage by stage.

mod text;

use std::collections::{BTreeMap, HashMap};

use gym_stamp::supervisor::READY;
use serde::Serialize;

use super::document::ms;
use super::stages::{OWN_REPORT, Server, Timed, UNTIL_READY, median, timed};
use super::startup::Startup;

pub use text::text;

/// What took how long in both; the biggest slow-downs are first everywhere.
pub struct Comparison {
    /// Why it says nothing that one took longer as a whole.
    pub incomparable: Option<String>,
    /// The startup as a whole.
    pub total: Times,
    /// The supervisor's own stages.
    pub supervisor: Vec<Difference>,
    /// Each stage's median over the servers that are in both.
    pub stages: Vec<Difference>,
    /// The servers that are in both.
    pub servers: Vec<Compared>,
    pub only_before: Vec<String>,
    pub only_now: Vec<String>,
}

/// A server in both, or several of one name.
pub struct Compared {
    pub server: Server,
    /// How many there are of it, before and now.
    pub replicas: [usize; 2],
    /// From spawn to the first answer, or what it says itself, or its longest stage.
    pub total: Times,
    pub stages: Vec<Difference>,
}

/// A stage in its place.
#[derive(Clone)]
pub struct Difference {
    pub place: String,
    pub times: Times,
}

/// In nanoseconds; one that is not there took no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub before_ns: Option<i128>,
    pub now_ns: Option<i128>,
}

impl Times {
    pub fn slower_by_ns(self) -> i128 {
        self.now_ns.unwrap_or(0).saturating_sub(self.before_ns.unwrap_or(0))
    }

    /// `None` where there is nothing to compare with.
    pub fn percent(self) -> Option<f64> {
        let before_ns = self.before_ns.filter(|before_ns| *before_ns > 0)?;
        self.now_ns?;
        Some(self.slower_by_ns() as f64 * 100.0 / before_ns as f64)
    }
}

/// The lengths of one stage, before and now; of replicas there are several.
type Lengths = [Vec<i128>; 2];

impl Comparison {
    pub fn new(before: &Startup, now: &Startup) -> Self {
        let startups = [before, now];
        let [before_ns, now_ns] = startups.map(|startup| Some(startup.length_ns()));
        let mut by_server: BTreeMap<Option<Server>, Stages> = BTreeMap::new();
        for (side, startup) in startups.into_iter().enumerate() {
            for stage in timed(startup) {
                by_server.entry(stage.server.clone()).or_default().add(side, stage);
            }
        }
        let own = by_server.remove(&None).unwrap_or_default();
        let (mut only_before, mut only_now) = (Vec::new(), Vec::new());
        let (mut servers, mut of_servers) = (Vec::new(), Stages::default());
        for (server, stages) in by_server.into_iter().filter_map(|(it, stages)| Some((it?, stages)))
        {
            match stages.replicas() {
                [0, _] => only_now.push(server.to_string()),
                [_, 0] => only_before.push(server.to_string()),
                replicas => {
                    of_servers.add_medians(&stages);
                    servers.push(Compared::new(server, replicas, stages));
                }
            }
        }
        servers.sort_by_key(|server| -server.total.slower_by_ns());
        Self {
            incomparable: incomparable(before, now),
            total: Times { before_ns, now_ns },
            supervisor: own.differences(),
            stages: of_servers.differences(),
            servers,
            only_before,
            only_now,
        }
    }
}

/// Of a startup that came to nothing less is there.
fn incomparable(before: &Startup, now: &Startup) -> Option<String> {
    let outcomes = [before.outcome(), now.outcome()];
    if outcomes.iter().flatten().all(|outcome| *outcome == READY) {
        return None;
    }
    let [before, now] = outcomes.map(|outcome| outcome.unwrap_or("unknown"));
    Some(format!("before: {before}, now: {now}: not comparable as a whole"))
}

impl Compared {
    fn new(server: Server, replicas: [usize; 2], stages: Stages) -> Self {
        let all = stages.differences();
        let place = |place: &str| all.iter().find(|it| it.place == place).map(|it| it.times);
        let longest = all.iter().max_by_key(|it| it.times.now_ns).map(|it| it.times);
        let total =
            place(UNTIL_READY).or_else(|| place(OWN_REPORT)).or(longest).unwrap_or_default();
        let stages = all
            .into_iter()
            .filter(|it| ![UNTIL_READY, OWN_REPORT].contains(&it.place.as_str()))
            .collect();
        Self { server, replicas, total, stages }
    }
}

/// Stages by their place.
#[derive(Default)]
struct Stages {
    by_place: HashMap<String, Lengths>,
}

impl Stages {
    fn add(&mut self, side: usize, stage: Timed) {
        self.push(side, stage.place, stage.ns);
    }

    fn push(&mut self, side: usize, place: String, ns: i128) {
        let lengths = self.by_place.entry(place).or_default();
        lengths.get_mut(side).into_iter().for_each(|lengths| lengths.push(ns));
    }

    fn add_medians(&mut self, of: &Self) {
        for (place, lengths) in &of.by_place {
            for (side, mut lengths) in lengths.clone().into_iter().enumerate() {
                if let Some(ns) = median(&mut lengths) {
                    self.push(side, place.clone(), ns);
                }
            }
        }
    }

    /// How many servers there are, before and now.
    fn replicas(&self) -> [usize; 2] {
        [0, 1].map(|side| {
            let lengths = |lengths: &Lengths| lengths.get(side).map_or(0, Vec::len);
            let count = |place: &str| self.by_place.get(place).map_or(0, lengths);
            let is_any = self.by_place.values().any(|it| lengths(it) > 0);
            count(UNTIL_READY).max(count(OWN_REPORT)).max(usize::from(is_any))
        })
    }

    fn differences(self) -> Vec<Difference> {
        let mut all: Vec<_> = self
            .by_place
            .into_iter()
            .map(|(place, lengths)| {
                let [before_ns, now_ns] = lengths.map(|mut lengths| median(&mut lengths));
                Difference { place, times: Times { before_ns, now_ns } }
            })
            .collect();
        all.sort_by(|one, other| {
            let key = |it: &Difference| (-it.times.slower_by_ns(), it.place.clone());
            key(one).cmp(&key(other))
        });
        all
    }
}

/// For programs.
#[derive(Serialize)]
pub struct Document<'c> {
    before: Whole,
    now: Whole,
    total: Row<'c>,
    supervisor: Vec<Row<'c>>,
    stages: Vec<Row<'c>>,
    servers: Vec<ServerRows<'c>>,
    only_before: &'c [String],
    only_now: &'c [String],
    notes: &'c [String],
}

#[derive(Serialize)]
struct Whole {
    trace_id: Option<String>,
    start_ns: u64,
    end_ns: u64,
    outcome: Option<String>,
}

#[derive(Serialize)]
struct ServerRows<'c> {
    name: &'c str,
    r#type: Option<&'c str>,
    replicas_before: usize,
    replicas_now: usize,
    total: Row<'c>,
    stages: Vec<Row<'c>>,
}

#[derive(Serialize)]
struct Row<'c> {
    stage: &'c str,
    before_ms: Option<f64>,
    now_ms: Option<f64>,
    difference_ms: f64,
    percent: Option<f64>,
}

impl<'c> Document<'c> {
    pub fn new(
        before: &Startup,
        now: &Startup,
        comparison: &'c Comparison,
        notes: &'c [String],
    ) -> Self {
        let whole = |startup: &Startup| Whole {
            trace_id: startup.trace_id.map(|it| it.to_string()),
            start_ns: startup.start_ns(),
            end_ns: startup.end_ns(),
            outcome: startup.outcome().map(str::to_owned),
        };
        let rows = |rows: &'c [Difference]| -> Vec<_> {
            rows.iter().map(|row| Row::new(&row.place, row.times)).collect()
        };
        let server = |compared: &'c Compared| {
            let Compared { server, replicas: [replicas_before, replicas_now], total, stages } =
                compared;
            ServerRows {
                name: &server.name,
                r#type: server.server_type.as_deref(),
                replicas_before: *replicas_before,
                replicas_now: *replicas_now,
                total: Row::new(UNTIL_READY, *total),
                stages: rows(stages),
            }
        };
        Self {
            before: whole(before),
            now: whole(now),
            total: Row::new("all", comparison.total),
            supervisor: rows(&comparison.supervisor),
            stages: rows(&comparison.stages),
            servers: comparison.servers.iter().map(server).collect(),
            only_before: &comparison.only_before,
            only_now: &comparison.only_now,
            notes,
        }
    }
}

impl<'c> Row<'c> {
    fn new(stage: &'c str, times: Times) -> Self {
        Self {
            stage,
            before_ms: times.before_ns.map(ms),
            now_ms: times.now_ns.map(ms),
            difference_ms: ms(times.slower_by_ns()),
            percent: times.percent(),
        }
    }
}

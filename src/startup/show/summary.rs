//! For each stage, how long it took the servers.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::stages::{OWN_REPORT, Timed, UNTIL_READY, median};
use crate::words::{counted, duration};

/// One stage of all servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// As in [`Timed::place`].
    pub place: String,
    /// How many times there was such a stage.
    pub count: usize,
    pub p50_ns: i128,
    pub max_ns: i128,
    pub slowest: String,
    pub node: Option<String>,
}

/// More servers than this are summed up.
const FEW: usize = 8;
/// No more stages are shown, but those that took longest.
const MOST_ROWS: usize = 24;

/// What is shown of a summary.
pub struct Longest {
    /// In the order in which the stages come.
    pub rows: Vec<Row>,
    /// How many others there are, and what none of them exceeds.
    pub others: usize,
    pub others_ns: i128,
}

impl Longest {
    /// Of `timed`, where the servers are many.
    pub fn of_many(timed: &[Timed]) -> Option<Self> {
        (servers(timed) > FEW).then(|| Self::of(rows(timed)))
    }

    /// Of stages that took as long as each other the first.
    fn of(mut rows: Vec<Row>) -> Self {
        let mut by_length: Vec<_> = rows.iter().map(|row| row.max_ns).enumerate().collect();
        by_length.sort_by_key(|(_, max_ns)| Reverse(*max_ns));
        let others = by_length.split_off(MOST_ROWS.min(by_length.len()));
        let others_ns = others.first().map_or(0, |(_, max_ns)| *max_ns);
        let shown: HashSet<_> = by_length.into_iter().map(|(index, _)| index).collect();
        let mut index = 0..;
        rows.retain(|_| index.next().is_some_and(|index| shown.contains(&index)));
        Self { rows, others: others.len(), others_ns }
    }

    pub fn others(&self, unicode: bool) -> Option<String> {
        let stages = counted(self.others, "more stage", "more stages");
        let up_to = duration(self.others_ns, unicode);
        (self.others > 0).then(|| format!("{stages}, each {up_to} at most"))
    }
}

/// The rows, in the order in which the stages come.
pub fn rows(timed: &[Timed]) -> Vec<Row> {
    let mut places: Vec<(&str, Vec<&Timed>)> = Vec::new();
    let mut by_place = HashMap::new();
    for stage in timed.iter().filter(|stage| stage.server.is_some()) {
        let place = stage.place.as_str();
        let index = *by_place.entry(place).or_insert(places.len());
        match places.get_mut(index) {
            Some((_, stages)) => stages.push(stage),
            None => places.push((place, vec![stage])),
        }
    }
    places.into_iter().filter_map(|(place, stages)| row(place, &stages)).collect()
}

fn row(place: &str, stages: &[&Timed]) -> Option<Row> {
    // Of equals the first.
    let slowest = stages.iter().rev().max_by_key(|stage| stage.ns)?;
    let mut lengths: Vec<_> = stages.iter().map(|stage| stage.ns).collect();
    Some(Row {
        place: place.to_owned(),
        count: stages.len(),
        p50_ns: median(&mut lengths)?,
        max_ns: slowest.ns,
        slowest: slowest.server.as_ref().map(|server| server.name.clone()).unwrap_or_default(),
        node: slowest.node.clone(),
    })
}

/// How many servers there are: those of one name are as many as were spawned, or reported.
pub fn servers(timed: &[Timed]) -> usize {
    let mut counts: HashMap<_, [usize; 2]> = HashMap::new();
    for stage in timed {
        let Some(server) = &stage.server else { continue };
        let [spawned, reported] = counts.entry(&server.name).or_default();
        match stage.place.as_str() {
            UNTIL_READY => *spawned = spawned.saturating_add(1),
            OWN_REPORT => *reported = reported.saturating_add(1),
            _ => {}
        }
    }
    counts.values().map(|[spawned, reported]| (*spawned).max(*reported).max(1)).sum()
}

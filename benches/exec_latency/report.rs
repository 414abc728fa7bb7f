//! The table, and the bars that `gym-stamp` is held to.

use std::fmt::{Display, Formatter, Result};
use std::fs;

use crate::launch::{BARE_SHIM, ENV, GYM_STAMP, Launch, UNWRAPPED};
use crate::measure::Times;

const BUILTIN: &str = "builtin clock, in a bash that already runs (1)";
const WIDTH: usize = 54;
const INDENTED: usize = WIDTH - 2;
const NOTES: &str = "\
Added at p50 is the difference of two p50s, and at p90 of two p90s. The ratios are of p50.
(1) The honest alternative where a bash is running anyway, as in most launch scripts:
    export NEMO_GYM_STARTUP_SETUP_DONE_NS=${EPOCHREALTIME/[.,]/}000
    starts nothing. Timed per call, in a loop within one bash. Lines with `-c` start a shell for
    the purpose; `bash -c, no stamp` is what that alone adds.
";

/// The bars, at p50.
const MOST_TO_BARE_SHIM: f64 = 1.15;
const LEAST_OF_ENV: f64 = 10.0;

/// Says how the numbers to come are made, and where.
pub fn print_conditions(rounds: usize) {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{rounds} rounds of every command in turn, each from spawn to the end of a program that does \
         nothing.\nLinux {}, {}, {cores} cores, load average {} at the start.\n",
        kernel.trim(),
        std::env::consts::ARCH,
        load.split(' ').next().unwrap_or_default(),
    );
}

/// What every launch adds to the one without a wrapper.
pub struct Table {
    unwrapped: Row,
    rows: Vec<Row>,
}

/// Times in µs.
struct Row {
    name: &'static str,
    p50: f64,
    p90: f64,
}

impl Row {
    fn new(name: &'static str, times: &Times) -> Self {
        let [p50, p90] = [50, 90].map(|percent| times.percentile_us(percent));
        Self { name, p50, p90 }
    }

    fn beyond(self, other: &Self) -> Self {
        Self { p50: self.p50 - other.p50, p90: self.p90 - other.p90, ..self }
    }
}

impl Table {
    /// From the times of `launches`, and of one call of bash's builtin clock.
    pub fn new(launches: &[Launch], times: Vec<Times>, builtin: Times) -> Self {
        let measured = launches.iter().zip(&times);
        let mut rows = measured.map(|(launch, times)| Row::new(launch.name, times));
        let unwrapped = rows.next().unwrap();
        assert_eq!(unwrapped.name, UNWRAPPED);
        let mut rows: Vec<_> = rows.map(|row| row.beyond(&unwrapped)).collect();
        rows.push(Row::new(BUILTIN, &builtin));
        Self { unwrapped, rows }
    }

    /// Says whether each bar holds; whether all do.
    pub fn judge(&self) -> bool {
        let [gym_stamp, bare_shim, env] = [GYM_STAMP, BARE_SHIM, ENV].map(|name| self.p50(name));
        let bars = [
            (
                gym_stamp <= MOST_TO_BARE_SHIM * bare_shim,
                format!(
                    "gym-stamp adds {:.2} times as much as the bare C shim; at most {MOST_TO_BARE_SHIM} is the bar",
                    gym_stamp / bare_shim
                ),
            ),
            (
                env >= LEAST_OF_ENV * gym_stamp,
                format!(
                    "env adds {:.1} times as much as gym-stamp; at least {LEAST_OF_ENV} is the bar",
                    env / gym_stamp
                ),
            ),
        ];
        for (holds, what) in &bars {
            println!("{}: at p50, {what}", if *holds { "holds" } else { "FAILS" });
        }
        bars.iter().all(|(holds, _)| *holds)
    }

    fn p50(&self, name: &str) -> f64 {
        self.rows.iter().find(|row| row.name == name).unwrap().p50
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Self { unwrapped, rows } = self;
        let [bare_shim, env] = [BARE_SHIM, ENV].map(|name| self.p50(name));
        writeln!(
            f,
            "{:WIDTH$}{:>9}{:>10}{:>11}{:>9}",
            "", "p50 µs", "p90 µs", "/ C shim", "/ env"
        )?;
        let Row { name, p50, p90 } = unwrapped;
        writeln!(f, "{name:WIDTH$}{p50:9.1}{p90:10.1}")?;
        writeln!(f, "added to that by")?;
        for Row { name, p50, p90 } in rows {
            let (to_bare_shim, to_env) = (p50 / bare_shim, p50 / env);
            writeln!(f, "  {name:INDENTED$}{p50:9.1}{p90:10.1}{to_bare_shim:11.2}{to_env:9.3}")?;
        }
        writeln!(f, "{NOTES}")
    }
}

//! What can be typed: the one source of help, man page and completions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use gym_stamp::telemetry::Protocol;

use crate::fleet::time;

/// Shows where the startup time of servers went
///
/// It launches servers as a supervisor does (run), watches one that something else launches (watch),
/// lists those that run (ps), and shows and sends what was recorded (show, export). All of it rests
/// on the stamps that gym-stamp leaves in a server's environment.
#[derive(Debug, Parser)]
#[command(name = "gym-startup", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Watch(Watch),
    Ps(Ps),
    Show(Show),
    Export(Export),
    Man(Man),
    Completions(Completions),
}

/// What `run --help` says beyond the options.
pub const RUN_MORE: &str = "\
Fleet file:
  timeout = \"10m\"                     # of every server that has none of its own
  [[server]]                          # one for each
  name = \"greeter\"
  type = \"resources_servers\"          # may be left out
  command = \"./launch.sh\"             # a line for bash, or a list: a program, its arguments
  cwd = \".\"                           # may be left out, as all below but ready
  env = { PORT = 8001 }
  ready = \"http://127.0.0.1:8001/\"    # or https://…, tcp://HOST:PORT, unix:/PATH
  expect = 200                        # instead of any status but 502, 503 and 504
  timeout = \"5m\"                      # or a number of seconds; 0 is for ever
Paths begin at the file's folder. With expect, unix:/PATH has to answer GET /.

Exit status:
  0        all were ready, and --exit-when-ready ended them
  1        a server ended, could not be started, or something else answers in its place; where
           the command line describes the only server, its own status, if it ended before it was
           ready and not with 0
  126, 127 the only server that the command line describes could not be executed, or was not
           found
  2        the command line or the fleet file is wrong, and nothing was started
  124      not ready in time
  128+N    ended by signal N
With --then it is CMD's.";

/// Launch servers, and show where the time until they are ready went
///
/// Either those of a fleet file, or one that the command line describes. All start at once. When
/// every server is ready the startup is shown, and the servers are kept until a signal ends them or
/// one of them ends.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "gym-startup run [OPTION]... FLEET.toml\n       \
        gym-startup run [OPTION]... --name NAME --ready URL -- COMMAND [ARG]...",
    after_long_help = RUN_MORE
)]
pub struct Run {
    /// The servers, as TOML
    #[arg(value_name = "FLEET.toml")]
    pub fleet: Option<PathBuf>,

    /// The one server's name
    #[arg(long, requires_all = ["ready", "command"])]
    pub name: Option<String>,

    /// The one server's type
    #[arg(long = "type", value_name = "TYPE", requires = "name")]
    pub server_type: Option<String>,

    /// What answers once the one server is ready: http://…, https://…, unix:/PATH or
    /// tcp://HOST:PORT
    #[arg(long, value_name = "URL", requires = "name")]
    pub ready: Option<String>,

    /// The HTTP status that it is ready with, instead of any but 502, 503 and 504
    #[arg(long, value_name = "STATUS", requires = "name")]
    pub expect: Option<u16>,

    /// The one server's command
    #[arg(
        last = true,
        value_name = "COMMAND",
        requires = "name",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,

    /// Run CMD with bash when every server is ready, and end them with its status
    #[arg(
        long,
        value_name = "CMD",
        conflicts_with = "exit_when_ready",
        value_hint = ValueHint::CommandString
    )]
    pub then: Option<OsString>,

    /// End the servers as soon as all are ready
    #[arg(long)]
    pub exit_when_ready: bool,

    /// Append the startup to FILE, as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// How long every server may take until it is ready: 90, 90s, 5m; 0 is for ever. The default is
    /// what the fleet file says, and 10m where it says nothing
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,

    /// Write each server's output to DIR/NAME.log
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub log_dir: Option<PathBuf>,

    /// How long a server may take to end before it is forced to
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub grace: String,

    /// Say only what goes wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// Say what happens line by line even on a terminal
    #[arg(long)]
    pub no_progress: bool,
}

/// Watch a server that something else launches, until it is ready
///
/// The server is found by whoever listens where --ready looks, or by --pid, and its stamps are read
/// from its environment. Nobody else reports such a startup, so its spans are exported as the
/// server's own, into the trace that its environment names. Of one that was ready before only the
/// setup can be told. It is left as it is, whatever comes.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "gym-startup watch [OPTION]... --ready URL",
    after_long_help = WATCH_MORE
)]
pub struct Watch {
    /// What answers once the server is ready: http://…, https://…, unix:/PATH or tcp://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub ready: String,

    /// The HTTP status that it is ready with, instead of any but 502, 503 and 504
    #[arg(long, value_name = "STATUS")]
    pub expect: Option<u16>,

    /// The server's process, or what launches it
    #[arg(long)]
    pub pid: Option<i32>,

    /// The server's name [default: its NEMO_GYM_CONFIG_PATH, else its command]
    #[arg(long)]
    pub name: Option<String>,

    /// The server's type
    #[arg(long = "type", value_name = "TYPE")]
    pub server_type: Option<String>,

    /// How long to wait until it is ready: 90, 90s, 5m; 0 is for ever
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub timeout: String,

    /// Append the startup to FILE, as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Say only what goes wrong
    #[arg(short, long)]
    pub quiet: bool,
}

/// What `watch --help` says beyond the options.
pub const WATCH_MORE: &str = "\
Exit status:
  0        ready, now or before
  1        the process ended first, cannot be watched, or is not what answers
  2        the command line is wrong
  124      not ready in time
  128+N    ended by signal N";

/// List the stamped servers of this machine
///
/// One line for each: when it was spawned, how long its setup took, how long it has run since, and
/// which stamps servers would ignore. A process whose stamps are those of one above it is part of
/// that one's server.
#[derive(Debug, clap::Args)]
pub struct Ps {
    /// Print JSON: times in nanoseconds, and the stamps as they stand in the environment
    #[arg(long)]
    pub json: bool,
}

/// Show recorded startups, or a server's that is running
///
/// Files of one startup, one from each node, say, are joined by their trace. What is shown of a
/// running server is what its stamps tell.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    override_usage = "gym-startup show [OPTION]... FILE...\n       \
        gym-startup show FILE... --against FILE...\n       \
        gym-startup show --pid PID",
    after_long_help = SHOW_MORE
)]
pub struct Show {
    /// Files of OTLP JSON lines, as --out and a collector's file exporter write them; - is standard
    /// input
    #[arg(value_name = "FILE", required_unless_present = "pid", conflicts_with = "pid")]
    pub files: Vec<PathBuf>,

    /// Show the server that this process is
    #[arg(long)]
    pub pid: Option<i32>,

    /// Show the startups whose trace id begins so
    #[arg(long, value_name = "ID", conflicts_with = "pid")]
    pub trace: Option<String>,

    /// Compare with the startup in FILE, stage by stage: how FILEs differ from it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "html"])]
    pub against: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Write one page for a browser to OUT; - is standard output
    #[arg(long, value_name = "OUT", conflicts_with = "json")]
    pub html: Option<PathBuf>,
}

/// What `show --help` says beyond the options.
pub const SHOW_MORE: &str = "\
Exit status:
  0        all of it was shown
  1        something could not be read or written, or there is nothing to show
  2        the command line is wrong";

/// Send recorded startups to an OTLP endpoint
///
/// What is not given here is what the variables OTEL_EXPORTER_OTLP_* say. Ids, times, resources and
/// scopes stay as they were recorded. Each failure is a line on standard error, and then the status
/// is 1.
#[derive(Debug, clap::Args)]
pub struct Export {
    /// Files of OTLP JSON lines, as --out and a collector's file exporter write them; - is standard
    /// input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Where to: http://HOST:PORT or https://HOST:PORT; over HTTP, /v1/traces and /v1/metrics are
    /// appended
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,

    /// grpc, http/protobuf or http/json [default: grpc]
    #[arg(long)]
    pub protocol: Option<Protocol>,

    /// How long all of the sending may take, with its retries: 500ms, 10s, or a number of
    /// milliseconds [default: 10s]
    ///
    /// It beats OTEL_EXPORTER_OTLP_TIMEOUT, which is in milliseconds too, while the Python SDK of
    /// NeMo Gym's servers takes seconds.
    #[arg(long, value_name = "TIME", value_parser = time::milliseconds_or_time)]
    pub timeout: Option<Duration>,

    /// Say only what goes wrong
    #[arg(short, long)]
    pub quiet: bool,
}

/// Print a manual page, also that of gym-stamp
///
/// To read it: gym-startup man gym-startup-run | man -l -
#[derive(Debug, clap::Args)]
pub struct Man {
    /// gym-startup, gym-stamp, or a command of gym-startup
    #[arg(value_name = "PAGE", default_value = "gym-startup")]
    pub page: String,
}

/// Print completions for a shell, also those of gym-stamp
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,

    /// The program
    #[arg(value_name = "PROGRAM", default_value = "gym-startup")]
    pub program: Program,
}

/// The programs of this package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    GymStartup,
    GymStamp,
}

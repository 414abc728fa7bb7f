//! A running server as a startup: what its stamps tell.

use std::io::ErrorKind;

use gym_stamp::contract::{MainStart, SETUP_DONE_NS, TRACEPARENT};
use gym_stamp::server::VENV_SETUP;
use gym_stamp::spans::{RandomIds, server_spans};
use gym_stamp::timeline::{Clock, Stage, SystemClock};
use opentelemetry::TraceId;

use super::startup::{Span, Startup};
use crate::proc;
use crate::stamped::Stamped;
use crate::waterfall::Entry;
use crate::words::harmless;

/// The startup of the server that the process `pid` is, and sentences about what is not known. One
/// that is in no trace has a trace id of zeros.
///
/// # Errors
///
/// Why nothing can be told of it.
pub fn startup(pid: i32) -> Result<(Startup, Vec<String>), String> {
    let stamped = read(pid)?;
    // No stamp that was read is later.
    let now_ns = SystemClock.now_ns();
    let mut notes = Vec::new();
    let server = stamped.into_main();
    if server.pid() != pid {
        notes.push(format!("process {pid} is part of the server that process {} is", server.pid()));
    }
    let ignored = server.ignored(now_ns);
    let in_setup = server.is_in_setup(now_ns);
    let (spawn_ns, setup_done_ns) = match server.reading(now_ns) {
        MainStart::SetupSeen { spawn_ns, setup_done_ns } => (spawn_ns, Some(setup_done_ns)),
        MainStart::SpawnSeen { spawn_ns, .. } => (spawn_ns, None),
        MainStart::Nothing { .. } => {
            let why = ignored.unwrap_or_default();
            return Err(format!(
                "nothing is known of the startup of process {}: {why}",
                server.pid()
            ));
        }
    };
    notes.extend(ignored);
    notes.push(match in_setup {
        true => format!("its setup goes on, or nobody stamps its end: {SETUP_DONE_NS} is not set"),
        false => {
            "when it became ready is not known: nobody but a watch from before sees that".to_owned()
        }
    });
    let parent = server.parent_span().unwrap_or_else(|why| {
        notes.push(format!("its {TRACEPARENT} is ignored: {why}"));
        None
    });

    let end_ns = setup_done_ns.unwrap_or(now_ns);
    let setup = Stage { name: VENV_SETUP.to_owned(), start_ns: spawn_ns, end_ns };
    let process = server.as_server(&server.name(), None);
    let mut records = server_spans(&process, &[setup], parent, &mut RandomIds);
    if setup_done_ns.is_none() && !in_setup {
        // How much of the time was setup is not known.
        records.truncate(1);
    }
    let node = nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned());
    let spans = records.iter().map(|record| {
        let mut entry = Entry::from(record);
        entry.end_ns = setup_done_ns;
        let attributes = record.attributes.iter();
        let text =
            |it: &opentelemetry::KeyValue| (it.key.to_string(), it.value.as_str().into_owned());
        Span { entry, node: node.clone(), error: None, attributes: attributes.map(text).collect() }
    });
    let trace_id = parent.map_or(TraceId::INVALID, |parent| parent.trace_id);
    Ok((Startup { trace_id, spans: spans.collect() }, notes))
}

fn read(pid: i32) -> Result<Stamped, String> {
    let process = proc::process(pid).filter(|process| !process.ended);
    let process = process.ok_or_else(|| format!("there is no process {pid}"))?;
    match Stamped::read(pid) {
        Ok(Some(stamped)) => return Ok(stamped),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(format!(
                "the environment of process {pid} may not be read: run as root, or as its user"
            ));
        }
        _ => {}
    }
    let below = Stamped::from(pid).into_iter().next();
    let mut above = None;
    let mut parent = process.parent;
    while let (None, Some(process)) = (&above, proc::process(parent)) {
        above = Stamped::read(parent).ok().flatten();
        parent = process.parent;
    }
    let hint = |stamped: Stamped, whose: &str| {
        let name = stamped.name();
        let name = harmless(&name, true);
        format!("; but {name}, {whose}, has one: show --pid {}", stamped.pid())
    };
    let found = below.map(|it| hint(it, "which it launched"));
    let found = found.or_else(|| above.map(|it| hint(it, "which launched it")));
    let hint = found.unwrap_or_default();
    Err(format!("process {pid} has no stamp in its environment, or has written over it{hint}"))
}

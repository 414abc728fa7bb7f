//! A running server as a startup: what its stamps tell.

use gym_stamp::contract::{MainStart, SETUP_DONE_NS, TRACEPARENT};
use gym_stamp::server::VENV_SETUP;
use gym_stamp::spans::{RandomIds, server_spans};
use gym_stamp::timeline::{Clock, Stage, SystemClock};

use super::startup::{Span, Startup};
use crate::proc;
use crate::stamped::{Stamped, readable};
use crate::waterfall::Entry;
use crate::words::harmless;

/// The startup of the server that the process `pid` is, and sentences about what is not known.
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
        false => "when it became ready is not known: its stamps do not tell".to_owned(),
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
        if setup_done_ns.is_none() {
            entry.outcome = Some("so far".to_owned());
        }
        let attributes = record.attributes.iter();
        let text =
            |it: &opentelemetry::KeyValue| (it.key.to_string(), it.value.as_str().into_owned());
        Span { entry, node: node.clone(), error: None, attributes: attributes.map(text).collect() }
    });
    let trace_id = parent.map(|parent| parent.trace_id);
    Ok((Startup { trace_id, spans: spans.collect() }, notes))
}

fn read(pid: i32) -> Result<Stamped, String> {
    let process = readable(pid)?;
    if let Ok(Some(stamped)) = Stamped::read(pid) {
        return Ok(stamped);
    }
    let below = match Stamped::from(pid).into_iter().next() {
        // It was in the middle of an exec.
        Some(stamped) if stamped.pid() == pid => return Ok(stamped),
        below => below,
    };
    let above = proc::above(process).find_map(|it| Stamped::read(it.pid).ok()?);
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::process::{Child, Command};

    use gym_stamp::contract::SPAWN_NS;

    use super::*;

    struct Running(Child);

    impl Running {
        fn start(command: &mut Command) -> io::Result<Self> {
            let running = command.spawn().map(Self)?;
            // An exec is over later for those who look, and the environment comes last.
            while proc::environ(running.pid())?.is_empty() {}
            Ok(running)
        }

        fn pid(&self) -> i32 {
            i32::try_from(self.0.id()).unwrap_or_default()
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().unwrap_or_default();
            self.0.wait().map(drop).unwrap_or_default();
        }
    }

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command
            .arg("1000")
            .env(SPAWN_NS, "1700000000000000000")
            .env("NEMO_GYM_CONFIG_PATH", "judge");
        command
    }

    /// Names and lengths of the spans, and the notes.
    fn told(pid: i32) -> Result<String, String> {
        let (startup, notes) = startup(pid)?;
        let spans = startup.spans.iter().map(|span| {
            let Entry { name, server, start_ns, end_ns, outcome, .. } = &span.entry;
            let ns = end_ns.map(|end_ns| format!("{} ns", end_ns - start_ns));
            let length = outcome.clone().or(ns).unwrap_or_default();
            format!("{name} {length} {}", server.as_deref().unwrap_or_default())
        });
        Ok(spans.chain(notes).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn a_stamped_server_is_shown_as_far_as_its_stamps_go() -> Result<(), Box<dyn std::error::Error>>
    {
        let trace_id = "0af7651916cd43dd8448eb211c80319c";
        let mut command = sleep();
        command.env(SETUP_DONE_NS, "1700000012000000000");
        command.env(TRACEPARENT, format!("00-{trace_id}-b7ad6b7169203331-01"));
        let server = Running::start(&mut command)?;
        insta::assert_snapshot!(told(server.pid())?, @r"
        gym.server.startup 12000000000 ns judge
        gym.server.startup.venv_setup 12000000000 ns judge
        when it became ready is not known: its stamps do not tell
        ");
        assert_eq!(startup(server.pid())?.0.title(), format!("trace {trace_id}"));

        let in_setup = Running::start(&mut sleep())?;
        insta::assert_snapshot!(told(in_setup.pid())?, @r"
        gym.server.startup so far judge
        gym.server.startup.venv_setup so far judge
        its setup goes on, or nobody stamps its end: NEMO_GYM_STARTUP_SETUP_DONE_NS is not set
        ");

        let disordered = Running::start(sleep().env(SETUP_DONE_NS, "1").env(TRACEPARENT, "x"))?;
        insta::assert_snapshot!(told(disordered.pid())?, @r"
        gym.server.startup so far judge
        servers ignore NEMO_GYM_STARTUP_SETUP_DONE_NS: it is 472222h 13m before NEMO_GYM_STARTUP_SPAWN_NS
        when it became ready is not known: its stamps do not tell
        its NEMO_GYM_STARTUP_TRACEPARENT is ignored: not a traceparent: it should read 00-TRACE-SPAN-FLAGS, in 32, 16 and 2 lowercase hexadecimal digits
        ");
        Ok(())
    }

    #[test]
    fn where_nothing_can_be_told_it_is_said_why() -> io::Result<()> {
        let why = |pid| told(pid).err().unwrap_or_default().replace(&i32::to_string(&pid), "PID");
        insta::assert_snapshot!(why(i32::MAX), @"there is no process PID");
        let unstamped = Running::start(Command::new("sleep").arg("1000"))?;
        insta::assert_snapshot!(why(unstamped.pid()), @"process PID has no stamp in its environment, or has written over it");
        let unspawned = Running::start(sleep().env_remove(SPAWN_NS).env(SETUP_DONE_NS, "1"))?;
        insta::assert_snapshot!(why(unspawned.pid()), @"nothing is known of the startup of process PID: servers ignore NEMO_GYM_STARTUP_SETUP_DONE_NS: NEMO_GYM_STARTUP_SPAWN_NS is not set");

        let mut command = Command::new("sh");
        command.stderr(std::process::Stdio::null());
        command.args(["-c", "env NEMO_GYM_STARTUP_SPAWN_NS=1 sh -c 'env -i sleep 1000; :'; :"]);
        let launcher = Running::start(&mut command)?;
        let below = || proc::Processes::now().below(launcher.pid());
        let sleeps = |it: &proc::Process| proc::command_line(it.pid) == ["sleep", "1000"];
        let sleep = loop {
            if let Some(sleep) = below().into_iter().find(sleeps) {
                break sleep;
            }
        };
        let anonymous = |why: String| why.replace(&sleep.parent.to_string(), "SHELL");
        insta::assert_snapshot!(anonymous(why(launcher.pid())), @"process PID has no stamp in its environment, or has written over it; but sh, which it launched, has one: show --pid SHELL");
        insta::assert_snapshot!(anonymous(why(sleep.pid)), @"process PID has no stamp in its environment, or has written over it; but sh, which launched it, has one: show --pid SHELL");
        for process in below() {
            let pid = nix::unistd::Pid::from_raw(process.pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)?;
        }
        Ok(())
    }
}

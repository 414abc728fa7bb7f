//! What a supervisor records, and what of it becomes spans, whatever the order of events.

use gym_stamp::contract::{SERVE_NS, SETUP_DONE_NS, SPAWN_NS, TRACEPARENT};
use gym_stamp::spans::{SpanRecord, Status};
use gym_stamp::supervisor::{Failure, SupervisorStartup};
use gym_stamp::traceparent::TraceParent;
use opentelemetry::{SpanId, TraceFlags, TraceId};
use proptest::prelude::*;
use rstest::rstest;

use crate::support::records::{CountedIds, FakeClock, tree};

struct Supervisor {
    clock: FakeClock,
    startup: SupervisorStartup<FakeClock, CountedIds>,
}

/// A startup that began at 0, its trace open.
fn supervisor() -> Supervisor {
    let mut supervisor = without_trace();
    supervisor.startup.begin_trace(None);
    supervisor
}

fn without_trace() -> Supervisor {
    let clock = FakeClock::at(0);
    let startup = SupervisorStartup::with_parts(clock.clone(), CountedIds::default());
    Supervisor { clock, startup }
}

impl Supervisor {
    fn at(&mut self, ns: u64) -> &mut SupervisorStartup<FakeClock, CountedIds> {
        self.clock.set(ns);
        &mut self.startup
    }

    #[track_caller]
    fn assert_stages(&self, expected: &[(&str, u64, u64)]) {
        let stages = self.startup.stages().iter();
        let stages: Vec<_> = stages.map(|s| (s.name.as_str(), s.start_ns, s.end_ns)).collect();
        assert_eq!(stages, expected);
    }
}

#[test]
fn a_startup_is_one_tree() {
    let mut supervisor = supervisor();
    supervisor.at(10).mark("load_config");
    supervisor.at(20).mark("init_telemetry");
    supervisor.at(30).server_env("reward", Some("resources_servers"));
    supervisor.at(31).server_env("policy", None);
    supervisor.at(40).mark("spawn_servers");
    supervisor.at(60).server_ready("policy");
    supervisor.at(70).server_ready("reward");
    supervisor.at(80).mark("wait_for_servers");
    supervisor.at(99).finish();

    let spans = supervisor.startup.take_spans();
    assert_eq!(
        tree(&spans),
        r#"gym.startup 0..80 nemo.gym.startup.outcome="ready"
  gym.startup.server 31..60 nemo.gym.server.name="policy" nemo.gym.startup.outcome="ready"
  gym.startup.server 30..70 nemo.gym.server.name="reward" nemo.gym.server.type="resources_servers" nemo.gym.startup.outcome="ready"
  gym.startup.load_config 0..10 nemo.gym.startup.stage="load_config"
  gym.startup.init_telemetry 10..20 nemo.gym.startup.stage="init_telemetry"
  gym.startup.spawn_servers 20..40 nemo.gym.startup.stage="spawn_servers"
  gym.startup.wait_for_servers 40..80 nemo.gym.startup.stage="wait_for_servers"
"#
    );
    assert_eq!(supervisor.startup.outcome(), Some("ready"));
    assert_eq!(supervisor.startup.take_spans(), [], "taken once");
}

#[test]
fn a_server_is_told_when_it_was_spawned_and_which_span_it_stands_under() {
    let mut supervisor = supervisor();
    let reward = supervisor.at(30).server_env("reward", None);
    let policy = supervisor.at(31).server_env("policy", None);
    supervisor.at(40).server_ready("reward");
    supervisor.at(40).server_ready("policy");

    // Trace 1; span 1 is gym.startup, 2 and 3 are the servers'.
    let under = |span: u64| format!("00-{:032x}-{span:016x}-01", 1);
    assert_eq!(reward, [(SPAWN_NS, "30".to_owned()), (TRACEPARENT, under(2))]);
    assert_eq!(policy, [(SPAWN_NS, "31".to_owned()), (TRACEPARENT, under(3))]);
    let spans = supervisor.startup.take_spans();
    assert_eq!([spans[0].span_id, spans[1].span_id], [SpanId::from(2), SpanId::from(3)]);
}

/// With what an outer launch left, and what the caller itself had set.
#[test]
fn a_command_is_prepared_with_this_launchs_variables_alone() {
    let mut supervisor = supervisor();
    let mut command = std::process::Command::new("true");
    command.envs([SPAWN_NS, SETUP_DONE_NS, SERVE_NS, TRACEPARENT].map(|name| (name, "1")));
    command.env("OTHER", "1");
    supervisor.at(30).prepare(&mut command, "reward", Some("resources_servers"));

    let variable = |name: &str| command.get_envs().find(|(it, _)| *it == name).unwrap().1;
    assert_eq!(variable(SPAWN_NS), Some("30".as_ref()));
    assert_eq!(variable(TRACEPARENT), Some(format!("00-{:032x}-{:016x}-01", 1, 2).as_ref()));
    // Removed, whatever is in the environment that it would inherit.
    assert_eq!((variable(SETUP_DONE_NS), variable(SERVE_NS)), (None, None));
    assert_eq!(variable("OTHER"), Some("1".as_ref()));
    assert_eq!(supervisor.startup.servers()[0].server_type.as_deref(), Some("resources_servers"));
}

#[test]
fn without_a_trace_a_server_gets_its_spawn_time_alone_and_nothing_becomes_a_span() {
    let mut supervisor = without_trace();
    let variables = supervisor.at(30).server_env("reward", None);
    supervisor.at(40).server_ready("reward");
    supervisor.at(50).mark("wait_for_servers");
    supervisor.startup.finish();

    assert_eq!(variables, [(SPAWN_NS, "30".to_owned())]);
    assert_eq!(supervisor.startup.take_spans(), []);
    assert_eq!(supervisor.startup.servers()[0].ready_ns, Some(40));
    supervisor.assert_stages(&[("wait_for_servers", 0, 50)]);
}

#[test]
fn a_server_spawned_before_the_trace_began_has_no_span() {
    let mut supervisor = without_trace();
    supervisor.at(10).server_env("early", None);
    supervisor.startup.begin_trace(None);
    supervisor.at(20).server_ready("early");
    supervisor.startup.finish();

    let tree = tree(&supervisor.startup.take_spans());
    assert_eq!(tree, "gym.startup 0..0 nemo.gym.startup.outcome=\"ready\"\n");
}

#[test]
fn a_trace_begins_once() {
    let mut supervisor = supervisor();
    let first = supervisor.at(1).server_env("a", None);
    supervisor.startup.begin_trace(Some(caller(TraceFlags::SAMPLED)));
    let second = supervisor.at(1).server_env("b", None);

    assert_eq!(first[1].1[..36], second[1].1[..36]);
}

#[test]
fn a_server_is_ready_once() {
    let mut supervisor = supervisor();
    supervisor.at(30).server_env("reward", None);
    supervisor.at(40).server_ready("reward");
    supervisor.at(50).server_ready("reward");

    assert_eq!(supervisor.startup.servers()[0].ready_ns, Some(40));
    let spans = supervisor.startup.take_spans();
    assert_eq!((spans.len(), spans[0].end_ns), (1, 40));
}

#[test]
fn an_unknown_server_is_ignored() {
    let mut supervisor = supervisor();
    supervisor.at(30).server_ready("nobody");

    assert_eq!(supervisor.startup.servers(), []);
    assert_eq!(supervisor.startup.take_spans(), []);
}

#[test]
fn a_server_that_answers_after_the_finish_still_closes_its_span() {
    let mut supervisor = supervisor();
    supervisor.at(30).server_env("late", None);
    supervisor.at(50).mark("wait_for_servers");
    supervisor.startup.finish();
    let root = supervisor.startup.take_spans().remove(0);
    supervisor.at(90).server_ready("late");

    let late = supervisor.startup.take_spans();
    assert_eq!((late.len(), late[0].end_ns, late[0].status.clone()), (1, 90, Status::Unset));
    assert_eq!(late[0].parent_span_id, Some(root.span_id));
    assert_eq!((root.name.as_str(), root.end_ns), ("gym.startup", 50));
}

#[test]
fn a_server_spawned_after_the_end_has_no_span() {
    let mut supervisor = supervisor();
    supervisor.at(10).finish();
    supervisor.startup.take_spans();

    assert_eq!(supervisor.at(20).server_env("late", None), [(SPAWN_NS, "20".to_owned())]);
    supervisor.at(30).server_ready("late");
    assert_eq!(supervisor.startup.take_spans(), []);
    assert_eq!(supervisor.startup.servers()[0].ready_ns, Some(30));
}

#[test]
fn a_server_spawned_again_starts_anew_and_its_first_attempt_is_closed() {
    let mut supervisor = supervisor();
    supervisor.at(10).server_env("reward", None);
    let again = supervisor.at(20).server_env("reward", None);
    supervisor.at(30).server_ready("reward");
    supervisor.at(40).mark("wait_for_servers");
    supervisor.startup.finish();

    assert_eq!(
        tree(&supervisor.startup.take_spans()),
        r#"gym.startup 0..40 nemo.gym.startup.outcome="ready"
  gym.startup.server 10..20 nemo.gym.server.name="reward" nemo.gym.startup.outcome="failed" error: spawned again before it was ready
  gym.startup.server 20..30 nemo.gym.server.name="reward" nemo.gym.startup.outcome="ready"
  gym.startup.wait_for_servers 0..40 nemo.gym.startup.stage="wait_for_servers"
"#
    );
    assert_eq!(again[0].1, "20");
    assert_eq!(supervisor.startup.servers().len(), 1);
}

#[test]
fn an_abort_before_any_server_closes_what_is_there() {
    let mut supervisor = supervisor();
    supervisor.at(10).mark("load_config");
    supervisor.at(25).abort(Failure::Failed, "no such config");

    assert_eq!(
        tree(&supervisor.startup.take_spans()),
        r#"gym.startup 0..25 nemo.gym.startup.outcome="failed" error: no such config
  gym.startup.load_config 0..10 nemo.gym.startup.stage="load_config"
  gym.startup.unfinished 10..25 nemo.gym.startup.stage="unfinished"
"#
    );
    assert_eq!(supervisor.startup.outcome(), Some("failed"));
}

#[rstest]
#[case(Failure::Failed, "failed")]
#[case(Failure::Timeout, "timeout")]
#[case(Failure::Interrupted, "interrupted")]
fn an_abort_with_some_ready_gives_the_others_its_outcome(
    #[case] failure: Failure,
    #[case] outcome: &str,
) {
    let mut supervisor = supervisor();
    supervisor.at(10).server_env("ready", None);
    supervisor.at(11).server_env("slow", Some("agents"));
    supervisor.at(20).mark("spawn_servers");
    supervisor.at(30).server_ready("ready");
    supervisor.at(90).abort(failure, "slow is \"slow\"");

    assert_eq!(
        tree(&supervisor.startup.take_spans()),
        format!(
            r#"gym.startup 0..90 nemo.gym.startup.outcome="{outcome}" error: slow is "slow"
  gym.startup.server 10..30 nemo.gym.server.name="ready" nemo.gym.startup.outcome="ready"
  gym.startup.server 11..90 nemo.gym.server.name="slow" nemo.gym.server.type="agents" nemo.gym.startup.outcome="{outcome}" error: slow is "slow"
  gym.startup.spawn_servers 0..20 nemo.gym.startup.stage="spawn_servers"
  gym.startup.unfinished 20..90 nemo.gym.startup.stage="unfinished"
"#
        )
    );
    assert_eq!(supervisor.startup.outcome(), Some(outcome));
    let failures: Vec<_> = supervisor.startup.servers().iter().map(|s| s.failure).collect();
    assert_eq!(failures, [None, Some(failure)]);
}

#[test]
fn after_an_abort_nothing_changes_any_more() {
    let mut supervisor = supervisor();
    supervisor.at(10).server_env("slow", None);
    supervisor.at(20).abort(Failure::Timeout, "too slow");
    let spans = supervisor.startup.take_spans();
    supervisor.at(30).abort(Failure::Interrupted, "again");
    supervisor.at(40).finish();
    supervisor.at(50).server_ready("slow");
    supervisor.at(60).mark("wait_for_servers");
    supervisor.at(60).add("elsewhere", 1, 2);
    supervisor.startup.begin_trace(None);
    supervisor.at(70).finish();

    assert_eq!(spans.len(), 3);
    assert_eq!(supervisor.startup.take_spans(), []);
    assert_eq!(supervisor.startup.outcome(), Some("timeout"));
    let slow = &supervisor.startup.servers()[0];
    assert_eq!((slow.ready_ns, slow.failure), (None, Some(Failure::Timeout)));
    supervisor.assert_stages(&[("unfinished", 0, 20)]);
}

#[test]
fn an_abort_after_the_finish_gives_up_only_who_has_not_answered() {
    let mut supervisor = supervisor();
    supervisor.at(10).server_env("ready", None);
    supervisor.at(10).server_env("slow", None);
    supervisor.at(20).server_ready("ready");
    supervisor.at(30).mark("wait_for_servers");
    supervisor.startup.finish();
    supervisor.at(90).abort(Failure::Interrupted, "SIGINT");

    assert_eq!(
        tree(&supervisor.startup.take_spans()),
        r#"gym.startup 0..30 nemo.gym.startup.outcome="ready"
  gym.startup.server 10..20 nemo.gym.server.name="ready" nemo.gym.startup.outcome="ready"
  gym.startup.wait_for_servers 0..30 nemo.gym.startup.stage="wait_for_servers"
  gym.startup.server 10..90 nemo.gym.server.name="slow" nemo.gym.startup.outcome="interrupted" error: SIGINT
"#
    );
    assert_eq!(supervisor.startup.outcome(), Some("ready"));
}

#[test]
fn an_abort_without_a_trace_still_covers_the_whole_startup() {
    let mut supervisor = without_trace();
    supervisor.at(10).mark("load_config");
    supervisor.at(15).server_env("slow", None);
    supervisor.at(20).abort(Failure::Failed, "no such config");
    supervisor.startup.begin_trace(None);

    supervisor.assert_stages(&[("load_config", 0, 10), ("unfinished", 10, 20)]);
    assert_eq!(supervisor.startup.servers()[0].failure, Some(Failure::Failed));
    assert_eq!(supervisor.startup.outcome(), Some("failed"));
    supervisor.startup.finish();
    assert_eq!(supervisor.startup.take_spans(), []);
}

#[test]
fn a_finish_without_stages_is_a_moment() {
    let mut supervisor = supervisor();
    supervisor.at(50).finish();
    supervisor.at(60).finish();

    let tree = tree(&supervisor.startup.take_spans());
    assert_eq!(tree, "gym.startup 0..0 nemo.gym.startup.outcome=\"ready\"\n");
}

#[test]
fn odd_names_are_kept_to_the_letter() {
    let odd = "a \"b\" 'c' \\ é 🦀";
    let mut supervisor = supervisor();
    supervisor.at(10).server_env(odd, Some(odd));
    supervisor.at(20).server_ready(odd);
    supervisor.at(30).mark(odd);
    supervisor.startup.finish();

    let spans = supervisor.startup.take_spans();
    assert_eq!(
        tree(&spans),
        format!(
            r#"gym.startup 0..30 nemo.gym.startup.outcome="ready"
  gym.startup.server 10..20 nemo.gym.server.name={odd:?} nemo.gym.server.type={odd:?} nemo.gym.startup.outcome="ready"
  gym.startup.{odd} 0..30 nemo.gym.startup.stage={odd:?}
"#
        )
    );
}

fn caller(flags: TraceFlags) -> TraceParent {
    TraceParent { trace_id: TraceId::from(0xabc), span_id: SpanId::from(0xdef), flags }
}

#[rstest]
#[case::sampled(TraceFlags::SAMPLED, "01")]
#[case::not_sampled(TraceFlags::NOT_SAMPLED, "00")]
fn a_startup_joins_its_callers_trace(#[case] flags: TraceFlags, #[case] passed_on: &str) {
    let mut supervisor = without_trace();
    supervisor.startup.begin_trace(Some(caller(flags)));
    let variables = supervisor.at(10).server_env("reward", None);
    supervisor.at(20).mark("load_config");
    supervisor.at(30).abort(Failure::Interrupted, "SIGINT");

    let traceparent = format!("00-{:032x}-{:016x}-{passed_on}", 0xabc, 2);
    assert_eq!(variables[1], (TRACEPARENT, traceparent));
    let spans = supervisor.startup.take_spans();
    tree(&spans);
    let root = spans.iter().find(|span| span.name == "gym.startup").unwrap();
    assert_eq!(root.parent_span_id, Some(SpanId::from(0xdef)));
    assert!(spans.iter().all(|span| span.flags == flags && span.trace_id == TraceId::from(0xabc)));
}

#[test]
fn the_systems_ids_are_all_different_and_none_is_zero() {
    let mut ids = std::collections::HashSet::new();
    for _ in 0..1_000 {
        let mut startup = SupervisorStartup::new();
        startup.begin_trace(None);
        startup.finish();
        let SpanRecord { trace_id, span_id, .. } = startup.take_spans().remove(0);
        assert!(trace_id != TraceId::INVALID && span_id != SpanId::INVALID);
        assert!(ids.insert(trace_id.to_string()) && ids.insert(span_id.to_string()));
    }
}

#[derive(Clone, Debug)]
enum Event {
    Mark,
    Add(u64, u64),
    Begin,
    Spawn(u8),
    Ready(u8),
    Finish,
    Abort,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Mark),
        (any::<u64>(), any::<u64>()).prop_map(|(start, end)| Event::Add(start, end)),
        Just(Event::Begin),
        (0u8..4).prop_map(Event::Spawn),
        (0u8..5).prop_map(Event::Ready),
        Just(Event::Finish),
        Just(Event::Abort),
    ]
}

proptest! {
    /// The rule behind `abort`: no server is ever told of a span that is not exported.
    #[test]
    fn in_whatever_order_an_abort_in_the_end_leaves_one_whole_tree(
        events in prop::collection::vec((event(), any::<u64>()), 0..30),
    ) {
        let mut supervisor = without_trace();
        let mut told = Vec::new();
        for (event, now) in events.into_iter().chain([(Event::Abort, 7)]) {
            let startup = supervisor.at(now);
            match event {
                Event::Mark => startup.mark("stage"),
                Event::Add(start, end) => startup.add("elsewhere", start, end),
                Event::Begin => startup.begin_trace(None),
                Event::Spawn(name) => {
                    let variables = startup.server_env(&name.to_string(), None);
                    told.extend(variables.into_iter().filter(|(name, _)| *name == TRACEPARENT));
                }
                Event::Ready(name) => startup.server_ready(&name.to_string()),
                Event::Finish => startup.finish(),
                Event::Abort => startup.abort(Failure::Failed, "why"),
            }
        }

        let spans = supervisor.startup.take_spans();
        if !spans.is_empty() {
            tree(&spans);
        }
        let servers = spans.iter().filter(|span| span.name == "gym.startup.server");
        prop_assert_eq!(servers.count(), told.len());
        for (_, traceparent) in told {
            let told: TraceParent = traceparent.parse().unwrap();
            prop_assert!(spans.iter().any(|span| span.span_id == told.span_id));
        }
    }
}

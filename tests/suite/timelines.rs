//! Stages are contiguous and add up, whatever is marked and added.

use gym_stamp::timeline::{Clock, Stage, StageTimeline, SystemClock};
use proptest::prelude::*;

use crate::support::records::FakeClock;

fn stage(name: &str, start_ns: u64, end_ns: u64) -> Stage {
    Stage { name: name.to_owned(), start_ns, end_ns }
}

#[test]
fn without_stages_the_end_is_the_start() {
    let timeline = StageTimeline::with_clock(FakeClock::at(5));

    assert_eq!(timeline.stages(), []);
    assert_eq!((timeline.start_ns(), timeline.end_ns()), (5, 5));
}

#[test]
fn a_mark_closes_the_stage_that_began_at_the_one_before() {
    let clock = FakeClock::at(5);
    let mut timeline = StageTimeline::with_clock(clock.clone());
    clock.set(7);
    timeline.mark("a");
    clock.set(10);
    timeline.mark("b");

    assert_eq!(timeline.stages(), [stage("a", 5, 7), stage("b", 7, 10)]);
    assert_eq!(timeline.end_ns(), 10);
}

#[test]
fn a_repeated_name_is_a_second_stage() {
    let clock = FakeClock::at(5);
    let mut timeline = StageTimeline::with_clock(clock.clone());
    timeline.mark("a");
    clock.set(6);
    timeline.mark("a");

    assert_eq!(timeline.stages(), [stage("a", 5, 5), stage("a", 5, 6)]);
}

#[test]
fn what_was_measured_elsewhere_moves_the_cursor_to_its_end() {
    let clock = FakeClock::at(50);
    let mut timeline = StageTimeline::with_clock(clock.clone());
    timeline.add("before", 20, 40);
    assert_eq!(timeline.end_ns(), 40);
    clock.set(60);
    timeline.mark("after");

    assert_eq!(timeline.stages(), [stage("before", 20, 40), stage("after", 40, 60)]);
    assert_eq!(timeline.start_ns(), 50);
}

#[test]
fn a_duration_is_in_milliseconds_and_negative_when_the_clock_went_back() {
    assert_eq!(stage("a", 1_000_000, 3_500_000).duration_ms(), 2.5);
    assert_eq!(stage("a", 3_500_000, 1_000_000).duration_ms(), -2.5);
    assert_eq!(stage("a", 0, u64::MAX).duration_ms(), u64::MAX as f64 / 1e6);
    assert_eq!(stage("a", u64::MAX, 0).duration_ms(), -(u64::MAX as f64) / 1e6);
}

#[test]
fn the_systems_clock_is_the_wall_clock_in_nanoseconds() {
    let (before, now, after) = (date(), SystemClock.now_ns(), date());

    assert!(before <= now && now <= after, "{before} {now} {after}");
}

fn date() -> u64 {
    use crate::support::toolbox::{program, succeed};
    let date = succeed(std::process::Command::new(program("date", "coreutils")).arg("+%s%N"));
    date.trim().parse().unwrap()
}

proptest! {
    #[test]
    fn marks_are_contiguous_from_start_to_end_and_add_up(
        start in any::<u32>(),
        steps in prop::collection::vec((".*", any::<u32>()), 1..20),
    ) {
        let clock = FakeClock::at(start.into());
        let mut timeline = StageTimeline::with_clock(clock.clone());
        for (name, step) in &steps {
            clock.set(clock.now_ns() + u64::from(*step));
            timeline.mark(name.as_str());
        }

        let stages = timeline.stages();
        let names = stages.iter().map(|stage| &stage.name);
        prop_assert!(names.eq(steps.iter().map(|(name, _)| name)));
        prop_assert_eq!(stages[0].start_ns, timeline.start_ns());
        prop_assert!(stages.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
        let sum: u64 = stages.iter().map(|stage| stage.end_ns - stage.start_ns).sum();
        prop_assert_eq!(sum, timeline.end_ns() - timeline.start_ns());
    }

    #[test]
    fn a_stage_measured_elsewhere_is_kept_as_it_is(
        start in any::<u64>(),
        end in any::<u64>(),
        now in any::<u64>(),
    ) {
        let mut timeline = StageTimeline::with_clock(FakeClock::at(now));
        timeline.add("elsewhere", start, end);
        timeline.mark("next");

        prop_assert_eq!(timeline.stages(), [stage("elsewhere", start, end), stage("next", end, now)]);
        let ms = timeline.stages()[0].duration_ms();
        prop_assert_eq!(ms < 0.0, end < start);
    }
}

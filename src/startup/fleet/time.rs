//! Lengths of time as people write them.

use std::time::Duration;

use gym_stamp::telemetry::milliseconds;

pub const ACCEPTED: &str = "a number of seconds, or a time such as 90s, 5m, 1m 30s, 500ms";

/// Nobody means more, and no clock overflows with less.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A number alone is seconds, as in `timeout` and `sleep`.
pub fn from_text(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    match seconds().or_else(|| humantime::parse_duration(text).ok()) {
        None => Err(format!("\"{text}\" is not a time; it takes {ACCEPTED}")),
        Some(time) if time > LONGEST => Err("more than a year; 0 is for ever".to_owned()),
        Some(time) => Ok(time),
    }
}

/// The same for what OTEL_EXPORTER_OTLP_TIMEOUT says too: a number alone is milliseconds, and there is
/// no sending for ever.
pub fn milliseconds_or_time(text: &str) -> Result<Duration, String> {
    const UNITS: &str = "expected a number of milliseconds, or a time such as 10s, 500ms";
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return milliseconds(text);
    }
    let time = humantime::parse_duration(text).map_err(|_| UNITS.to_owned())?;
    let ms = u64::try_from(time.as_nanos().div_ceil(1_000_000)).map_err(|_| UNITS.to_owned())?;
    milliseconds(&ms.to_string())
}

/// What is no time at all is no limit, as in `timeout`.
pub fn unless_zero(limit: Duration) -> Option<Duration> {
    Some(limit).filter(|limit| !limit.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_seconds() {
        for (text, millis) in [
            ("90", 90_000),
            (" 0.25 ", 250),
            ("0", 0),
            ("90s", 90_000),
            ("1m 30s", 90_000),
            ("500ms", 500),
            ("1y", 31_557_600_000),
        ] {
            assert_eq!(from_text(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_number_alone_is_milliseconds_where_it_is_in_the_variable() {
        for (text, millis) in [("500", 500), ("500ms", 500), ("10s", 10_000), ("1m 30s", 90_000)] {
            assert_eq!(milliseconds_or_time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0s", "soon", "0.5", "-1", "2days", "99999999999999999999"] {
            assert!(milliseconds_or_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "-1", "soon", "5 parsecs", "NaN", "inf", "5s5", "2y", "1e300"] {
            let why = from_text(text).err();
            let told = |why: String| why.contains(ACCEPTED) || why.contains("more than a year");
            assert!(why.clone().is_some_and(told), "{text}: {why:?}");
        }
    }
}

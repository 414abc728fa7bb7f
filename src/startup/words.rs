//! Durations and names as a terminal shows them.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::{Duration, UNIX_EPOCH};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `850 µs`, `12.3 ms`, `4.56 s`, `1m 05s`, `2h 03m`: three digits say it all.
///
/// Negative where the clock was set back meanwhile.
pub fn duration(ns: i128, unicode: bool) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let micro = if unicode { "µs" } else { "us" };
    let text = match ns {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..999_500 => three_digits(ns as f64 / 1e3, micro),
        999_500..999_500_000 => three_digits(ns as f64 / 1e6, "ms"),
        999_500_000..59_950_000_000 => three_digits(ns as f64 / 1e9, "s"),
        59_950_000_000..3_599_500_000_000 => {
            let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
            format!("{}m {:02}s", seconds / 60, seconds % 60)
        }
        _ => {
            let minutes = ns.saturating_add(30_000_000_000) / 60_000_000_000;
            format!("{}h {:02}m", minutes / 60, minutes % 60)
        }
    };
    format!("{sign}{text}")
}

fn three_digits(value: f64, unit: &str) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// `1 span`, `2 spans`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The error without Rust's "(os error 2)" at its end.
pub fn plain(error: impl Display) -> String {
    let words = error.to_string();
    words.split(" (os error ").next().unwrap_or_default().to_owned()
}

/// A time in nanoseconds since the epoch: `2026-12-01 06:31:38 UTC`.
pub fn date(ns: u64) -> String {
    let date = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(ns));
    date.to_string().replace('T', " ").replace('Z', " UTC")
}

/// `text` without what would move the cursor, change colours or turn the direction of writing:
/// names come from files and from other processes. Without `unicode`, in ASCII.
pub fn harmless(text: &str, unicode: bool) -> Cow<'_, str> {
    let is_harmless = |it: char| match it {
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => false,
        '\u{61c}' | '\u{feff}' => false,
        _ => !it.is_control() && (unicode || it.is_ascii()),
    };
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let instead = if unicode { '\u{fffd}' } else { '?' };
    text.chars().map(|it| if is_harmless(it) { it } else { instead }).collect()
}

/// `text` in at most `width` columns; where something is left out there is an ellipsis.
pub fn fit(text: &str, width: usize, unicode: bool) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let ellipsis = if unicode { "…" } else { "~" };
    let Some(room) = width.checked_sub(1) else { return Cow::Borrowed("") };
    let mut taken = 0_usize;
    let kept = text.chars().take_while(|it| {
        taken = taken.saturating_add(it.width().unwrap_or(0));
        taken <= room
    });
    Cow::Owned(kept.chain(ellipsis.chars()).collect())
}

/// The first `count` characters; where there are more there is an ellipsis.
pub fn cut(text: &str, count: usize) -> Cow<'_, str> {
    match text.char_indices().nth(count).and_then(|(end, _)| text.get(..end)) {
        Some(start) => Cow::Owned(format!("{start}…")),
        None => Cow::Borrowed(text),
    }
}

/// The last `count` characters.
pub fn tail(text: &str, count: usize) -> &str {
    let Some(back) = count.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(back).and_then(|(start, _)| text.get(start..)).unwrap_or(text)
}

/// `text` and what it lacks to `width` columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// `text` behind what it lacks to `width` columns.
pub fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

/// `text`, harmless, in lines of at most `width` columns where its words allow, each with its
/// newline.
pub fn wrapped(text: &str, width: usize, unicode: bool) -> String {
    let text = harmless(text, unicode);
    let mut lines = String::new();
    let mut used = 0_usize;
    for word in text.split_whitespace() {
        let with_word = used.saturating_add(word.width()).saturating_add(1);
        if used == 0 {
            used = word.width();
        } else if with_word <= width {
            lines.push(' ');
            used = with_word;
        } else {
            lines.push('\n');
            used = word.width();
        }
        lines.push_str(word);
    }
    lines.push('\n');
    lines
}

/// A duration that runs: whole tenths of a second, so that it counts up without flicker.
pub fn running(ns: i128) -> String {
    match ns {
        ..100_000_000 => "0.0 s".to_owned(),
        100_000_000..60_000_000_000 => {
            let tenths = ns / 100_000_000;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        _ => duration(ns / 1_000_000_000 * 1_000_000_000, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_three_digits() {
        for (ns, text) in [
            (0, "0 s"),
            (1, "1 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (99_960_000, "100 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.00 s"),
            (59_949_999_999, "59.9 s"),
            (59_950_000_000, "1m 00s"),
            (65_000_000_000, "1m 05s"),
            (3_599_499_999_999, "59m 59s"),
            (3_599_500_000_000, "1h 00m"),
            (7_380_000_000_000, "2h 03m"),
            (-1_500_000, "-1.50 ms"),
        ] {
            assert_eq!(duration(ns, true), text, "{ns}");
        }
        assert_eq!(duration(1_500, false), "1.50 us");
    }

    #[test]
    fn every_time_has_a_date() {
        assert_eq!(date(1_796_106_698_999_999_999), "2026-12-01 06:31:38 UTC");
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(u64::MAX), "2554-07-21 23:34:33 UTC");
    }

    #[test]
    fn text_fits_its_columns() {
        assert_eq!(fit("server", 6, true), "server");
        assert_eq!(fit("servers", 6, true), "serve…");
        assert_eq!(fit("servers", 6, false), "serve~");
        assert_eq!(fit("評価サーバー", 6, true), "評価…");
        assert_eq!(fit("a", 0, true), "");
        assert_eq!(cut("評価サ", 3), "評価サ");
        assert_eq!(cut("評価サー", 3), "評価サ…");
        assert_eq!(padded("評価", 6), "評価  ");
        assert_eq!(right("1 s", 6), "   1 s");
    }

    #[test]
    fn a_paragraph_is_wrapped_between_words() {
        assert_eq!(wrapped("one two  three 四五六", 9, true), "one two\nthree\n四五六\n");
        assert_eq!(wrapped("longer than that", 3, true), "longer\nthan\nthat\n");
        assert_eq!(wrapped("", 3, true), "\n");
    }

    #[test]
    fn a_running_time_counts_tenths() {
        for (ns, text) in [
            (-5, "0.0 s"),
            (99_999_999, "0.0 s"),
            (100_000_000, "0.1 s"),
            (59_999_999_999, "59.9 s"),
            (60_999_999_999, "1m 00s"),
        ] {
            assert_eq!(running(ns), text, "{ns}");
        }
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(
            harmless("a\x1b[31mb\n\u{202e}c\u{9b}", true),
            "a\u{fffd}[31mb\u{fffd}\u{fffd}c\u{fffd}"
        );
        assert_eq!(harmless("a\u{61c}b\u{2028}c\u{2029}", true), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(harmless("été", true), "été");
        assert_eq!(harmless("été", false), "?t?");
    }
}

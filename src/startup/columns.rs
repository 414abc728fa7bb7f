//! Rows of text in columns.

use unicode_width::UnicodeWidthStr;

use crate::words::{fit, harmless, padded, right};

const GAP: &str = "  ";
/// What is left of a column of text when there is no room.
const NARROWEST: usize = 5;

/// A column's heading. Text is cut where there is no room; numbers are not.
#[derive(Clone, Copy)]
pub enum Column {
    Text(&'static str),
    Number(&'static str),
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Text(head) | Self::Number(head) => head,
        }
    }
}

/// The heading and the rows as lines of at most `width` columns, if that is enough for the numbers.
pub fn lines(columns: &[Column], rows: &[Vec<String>], width: usize, unicode: bool) -> Vec<String> {
    let head = columns.iter().map(|column| column.head().to_owned()).collect();
    let cells = |row: &Vec<String>| -> Vec<_> {
        row.iter().map(|cell| harmless(cell, unicode).into_owned()).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let mut widths: Vec<_> = (0..columns.len()).map(widest).collect();
    shrink(&mut widths, columns, width);
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().zip(columns).zip(&widths).map(|((cell, column), width)| match column {
                Column::Text(_) => padded(&fit(cell, *width, unicode), *width),
                Column::Number(_) => right(cell, *width),
            });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Takes what is too much from the widest column of text, again and again.
fn shrink(widths: &mut [usize], columns: &[Column], width: usize) {
    let gaps = columns.len().saturating_sub(1).saturating_mul(GAP.len());
    loop {
        let used = widths.iter().sum::<usize>().saturating_add(gaps);
        let texts = widths
            .iter_mut()
            .zip(columns)
            .filter_map(|(width, column)| matches!(column, Column::Text(_)).then_some(width));
        match texts.max() {
            Some(widest) if used > width && *widest > NARROWEST => {
                *widest = widest.saturating_sub(1);
            }
            _ => return,
        }
    }
}

//! Tables for eyes: aligned by display width, cut to the terminal, nothing that could drive it.

use gpufleet_model::command::escape_text;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::columns::{Cell, Column, Tone};
use crate::screen::Screen;

/// Blanks between two columns.
const GAP: &str = "  ";
/// The last column keeps at least this width before the table is wider than the terminal.
const LEAST_LAST: usize = 10;

/// A table with a heading; without rows, the heading alone.
pub(crate) fn render<R>(rows: &[R], columns: &[&Column<R>], screen: Screen) -> String {
    let cells: Vec<Vec<Cell>> =
        rows.iter().map(|row| columns.iter().map(|column| safe((column.cell)(row))).collect()).collect();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let widest = cells.iter().filter_map(|row| row.get(place)).map(|cell| cell.text.width()).max();
            column.title.width().max(widest.unwrap_or_default())
        })
        .collect();
    let widths = fit(&widths, screen.width);
    let titles: Vec<Cell> = columns.iter().map(|column| Cell::text(column.title)).collect();
    let heading = line(&titles, columns, &widths, Screen { colour: false, ..screen });
    let mut text = screen.strong(heading.trim_end()) + "\n";
    for row in &cells {
        text += line(row, columns, &widths, screen).trim_end();
        text.push('\n');
    }
    text
}

/// Everything in a table has been seen by a person before a terminal sees it.
fn safe(mut cell: Cell) -> Cell {
    if let std::borrow::Cow::Owned(escaped) = escape_text(&cell.text) {
        cell.text = escaped;
    }
    cell
}

/// Narrows the last column to what is left of the terminal.
fn fit(widths: &[usize], terminal: Option<usize>) -> Vec<usize> {
    let mut widths = widths.to_vec();
    if let (Some(terminal), Some((last, others))) = (terminal, widths.split_last_mut()) {
        let taken: usize = others.iter().map(|width| width + GAP.len()).sum();
        *last = (*last).min(terminal.saturating_sub(taken).max(LEAST_LAST));
    }
    widths
}

fn line<R>(cells: &[Cell], columns: &[&Column<R>], widths: &[usize], screen: Screen) -> String {
    let mut text = String::new();
    for (place, ((cell, column), width)) in cells.iter().zip(columns).zip(widths).enumerate() {
        if place > 0 {
            text.push_str(GAP);
        }
        let shown = cut(&cell.text, *width);
        let blanks = " ".repeat(width.saturating_sub(shown.width()));
        let painted = if cell.tone == Tone::Plain { shown } else { screen.paint(&shown, cell.tone) };
        let (before, after) = if column.right { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
        text.push_str(before);
        text.push_str(&painted);
        text.push_str(after);
    }
    text
}

/// Text cut to a display width, with an ellipsis where something is missing. Wide characters are never halved.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut shown, mut taken) = (String::new(), 0);
    for c in text.chars() {
        let needed = c.width().unwrap_or_default();
        if taken + needed > width.saturating_sub(1) {
            break;
        }
        taken += needed;
        shown.push(c);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_are_cut_whole() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
    }
}

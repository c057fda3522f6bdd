//! Tables for eyes: aligned by display width, cut to the terminal, nothing that could drive it.

use gpufleet_model::command::escape_text;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::columns::{Cell, Column, Record, Tone};
use crate::screen::Screen;

/// Blanks between two columns.
const GAP: &str = "  ";
/// A column of text may be narrowed to this before another is left out.
const LEAST_TEXT: usize = 12;
/// A last column of text, such as a command, may be narrowed to this.
const LEAST_LAST: usize = 24;
/// Columns that are never left out: they say what the row is about.
const ALWAYS_KEPT: usize = 2;

/// A table with a heading; without rows, the heading alone.
pub(crate) fn render<R: Record>(rows: &[R], columns: &[&Column<R>], screen: Screen) -> String {
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
    let (kept, widths) = fit(columns, widths, screen.width);
    let columns: Vec<&Column<R>> = kept.iter().filter_map(|place| columns.get(*place).copied()).collect();
    let only_kept =
        |row: Vec<Cell>| -> Vec<Cell> { kept.iter().filter_map(|place| row.get(*place).cloned()).collect() };
    let cells: Vec<Vec<Cell>> = cells.into_iter().map(only_kept).collect();
    let titles: Vec<Cell> = columns.iter().map(|column| Cell::text(column.title)).collect();
    let heading = line(&titles, &columns, &widths, Screen { colour: false, ..screen });
    let mut text = screen.strong(heading.trim_end()) + "\n";
    for (row, cells) in rows.iter().zip(&cells) {
        let screen = Screen { old: screen.old || row.is_old(), ..screen };
        text += line(cells, &columns, &widths, screen).trim_end();
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

/// Which columns fit a terminal, and how wide each is. Text is narrowed first; then columns are left out from the right,
/// where the less important ones stand. A last column of text, such as a command, stays.
fn fit<R>(columns: &[&Column<R>], mut widths: Vec<usize>, terminal: Option<usize>) -> (Vec<usize>, Vec<usize>) {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    let Some(terminal) = terminal else { return (kept, widths) };
    let text_last = columns.last().is_some_and(|column| !column.right);
    loop {
        let total = widths.iter().map(|width| width + GAP.len()).sum::<usize>().saturating_sub(GAP.len());
        let excess = total.saturating_sub(terminal);
        if excess == 0 {
            return (kept, widths);
        }
        let is_text =
            |place: &usize| kept.get(*place).and_then(|at| columns.get(*at)).is_some_and(|column| !column.right);
        let width_of = |place: &usize| widths.get(*place).copied().unwrap_or_default();
        let least = |place: usize| if place + 1 == widths.len() { LEAST_LAST } else { LEAST_TEXT };
        let narrowable = |place: &usize| is_text(place) && width_of(place) > least(*place);
        let widest = (0..widths.len()).filter(narrowable).max_by_key(width_of);
        if let Some((place, least)) = widest.map(|place| (place, least(place))) {
            if let Some(width) = widths.get_mut(place) {
                *width = width.saturating_sub(excess).max(least);
            }
            continue;
        }
        let out = widths.len().saturating_sub(1 + usize::from(text_last));
        if out < ALWAYS_KEPT {
            // Narrower than any terminal that is worked on: the last column takes what is left.
            if let Some(last) = widths.last_mut() {
                *last = last.saturating_sub(excess);
            }
            return (kept, widths);
        }
        kept.remove(out);
        widths.remove(out);
    }
}

fn line<R>(cells: &[Cell], columns: &[&Column<R>], widths: &[usize], screen: Screen) -> String {
    let mut text = String::new();
    for (place, ((cell, column), width)) in cells.iter().zip(columns).zip(widths).enumerate() {
        if place > 0 {
            text.push_str(GAP);
        }
        let shown = cut(&cell.text, *width);
        let blanks = " ".repeat(width.saturating_sub(shown.width()));
        let painted = screen.paint(&shown, if screen.old { Tone::Dim } else { cell.tone });
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
    use crate::columns::Shown;

    fn column(title: &'static str, right: bool, cell: fn(&u32) -> Cell) -> Column<u32> {
        Column { title, name: title, right, shown: Shown::Always, descending: false, cell }
    }

    #[test]
    fn a_table_never_is_wider_than_the_terminal_and_keeps_what_a_row_is_about() {
        let columns = [
            column("HOST", false, |n| Cell::text(format!("host{n}"))),
            column("GPU", true, |n| Cell::number((*n).into(), n.to_string())),
            column("NAME", false, |_| Cell::text("a name of a device that goes on and on")),
            column("TEMP", true, |_| Cell::text("42C")),
            column("POWER", true, |_| Cell::unknown()),
            column("COMMAND", false, |_| Cell::text("python3 train.py --with many --more arguments")),
        ];
        let columns: Vec<&Column<u32>> = columns.iter().collect();
        for width in 40..140 {
            let screen = Screen { width: Some(width), ..Screen::plain() };
            let text = render(&[1, 22], &columns, screen);
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
                assert!(line.starts_with("HOST") || line.starts_with("host"), "{line}");
            }
            assert!(text.contains("python3"), "{width}: {text}");
        }
    }

    impl Record for u32 {}

    struct Old;

    impl Record for Old {
        fn is_old(&self) -> bool {
            true
        }
    }

    #[test]
    fn what_is_old_is_dim_and_nothing_is_coloured_without_a_terminal() {
        let cell = |_: &Old| Cell::text("hot").toned(Tone::Bad);
        let column = Column { title: "T", name: "t", right: false, shown: Shown::Always, descending: false, cell };
        let coloured = Screen { terminal: true, colour: true, ..Screen::plain() };
        assert_eq!(render(&[Old], &[&column], coloured), "\x1b[1mT\x1b[0m\n\x1b[2mhot\x1b[0m\n");
        assert_eq!(render(&[Old], &[&column], Screen::plain()), "T\nhot\n");
    }

    #[test]
    fn wide_characters_are_cut_whole() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
    }
}

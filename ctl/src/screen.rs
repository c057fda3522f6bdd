//! The terminal, as far as printing is concerned: is it one, how wide is it, does it take colours.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use crate::columns::Tone;
use crate::exit::Result;

pub(crate) mod stage;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Standard output is a terminal.
    pub(crate) terminal: bool,
    /// Colours are wanted and possible.
    pub(crate) colour: bool,
    /// Columns of the terminal; `None` when lines must not be cut.
    pub(crate) width: Option<usize>,
    /// Nothing that is printed is current.
    pub(crate) old: bool,
}

impl Screen {
    /// Standard output as it is.
    pub(crate) fn detect(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let unwanted = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = if terminal { crossterm::terminal::size().ok().map(|(width, _)| usize::from(width)) } else { None };
        Self { terminal, colour: terminal && !unwanted && !dumb, width: width.filter(|width| *width > 0), old: false }
    }

    /// For files and pipes.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { terminal: false, colour: false, width: None, old: false }
    }

    /// Text in a tone.
    pub(crate) fn paint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.colour => return text.to_owned(),
            Tone::Good => "32",
            Tone::Middling => "33",
            Tone::Bad => "31",
            Tone::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Text that stands out.
    pub(crate) fn strong(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Prints to standard output.
///
/// # Errors
/// When it cannot be written. A reader that has closed the pipe has seen enough: that error ends the program quietly.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

/// Tells something on standard error. When that is closed too, nobody is left to tell.
pub(crate) fn tell(text: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "gpuctl: {text}");
}

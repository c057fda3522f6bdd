//! Who is asked. Questions go to the terminal and answers come from it, whatever standard input and output are: what a
//! pipe says is no consent, and what goes into a file has not been seen.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal, Write as _};

use crate::exit::{CtlError, Result};

/// Somebody who can be shown something and asked.
pub(super) trait Person {
    /// The answer; `None` at the end of input.
    fn ask(&mut self, shown: &str, question: &str) -> Result<Option<String>>;
}

/// The person at the terminal of this program.
pub(super) struct AtTerminal {
    terminal: File,
}

impl AtTerminal {
    /// The terminal, if somebody is at it: a program with no stream on a terminal is a script's, even when the script was
    /// started from one.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn find() -> Result<Self> {
        let streams = [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
        let terminal = File::options().read(true).write(true).open("/dev/tty");
        match terminal {
            Ok(terminal) if streams.contains(&true) => Ok(Self { terminal }),
            _ => Err(CtlError::usage("there is no terminal to ask on; look with --dry-run, then give --yes")),
        }
    }
}

impl Person for AtTerminal {
    fn ask(&mut self, shown: &str, question: &str) -> Result<Option<String>> {
        if !io::stdout().is_terminal() {
            write!(self.terminal, "{shown}")?;
        }
        write!(self.terminal, "{question}")?;
        self.terminal.flush()?;
        let mut answer = String::new();
        BufReader::new(&self.terminal).read_line(&mut answer)?;
        if !answer.ends_with('\n') {
            writeln!(self.terminal)?;
        }
        Ok(Some(answer).filter(|answer| !answer.is_empty()))
    }
}

/// Only `y` or `yes` is yes.
pub(super) fn is_yes(answer: Option<&str>) -> bool {
    answer.is_some_and(|answer| matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::is_yes;

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y\n", "yes\n", " YES \r\n", "y"] {
            assert!(is_yes(Some(yes)), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yy\n", "yes please\n", "j\n", "ye\n", "y\0\n", "ｙ\n"] {
            assert!(!is_yes(Some(no)), "{no:?}");
        }
        assert!(!is_yes(None));
    }
}

//! The terminal while a page is repainted on it: the alternate screen, no cursor, keys unbuffered.
//!
//! However the program ends, the terminal is as it was. What a panic says meanwhile is kept until the page has been left,
//! where it can be read.

use std::io;
use std::panic;
use std::sync::{Mutex, PoisonError};

use crossterm::{cursor, execute, terminal};

/// What panics said while the stage was up.
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Puts the terminal back when it is dropped.
#[derive(Debug)]
pub(crate) struct Stage;

impl Stage {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When there is none, or it does not obey.
    pub(crate) fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let stage = Self;
        panic::set_hook(Box::new(|what| kept().push(what.to_string())));
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(stage)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
        // The hook cannot be taken back while a panic is under way.
        if !std::thread::panicking() {
            let _ = panic::take_hook();
        }
        for said in kept().drain(..) {
            super::tell(said);
        }
    }
}

fn kept() -> std::sync::MutexGuard<'static, Vec<String>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

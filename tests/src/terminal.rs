//! A terminal: `gpuctl` asks its questions only there.

use rexpect::process::WaitStatus;
use rexpect::session::{Options, PtySession};

use crate::{DEADLINE, ProgramBuilder};

/// A program on a terminal of its own.
pub struct Terminal {
    session: PtySession,
}

impl Terminal {
    /// Starts a program.
    pub fn start(program: &ProgramBuilder) -> Self {
        let options = Options::new()
            .timeout_ms(Some(u64::try_from(DEADLINE.as_millis()).expect("a short deadline")))
            .strip_ansi_escape_codes(true);
        let session = rexpect::session::spawn_with_options(program.command(), options).expect("a terminal");
        Self { session }
    }

    /// Waits for a text and gives what came before it.
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> String {
        self.session.exp_string(text).unwrap_or_else(|e| panic!("waiting for `{text}`: {e}"))
    }

    /// Types a line.
    pub fn types(&mut self, line: &str) {
        self.session.send_line(line).expect("typing");
    }

    /// Presses Ctrl and a key.
    pub fn control(&mut self, key: char) {
        self.session.send_control(key).expect("typing");
    }

    /// Waits for the program's end; gives what it still printed and its exit code.
    #[track_caller]
    pub fn ends(mut self) -> (String, i32) {
        let rest = self.session.exp_eof().unwrap_or_else(|e| panic!("waiting for the end: {e}"));
        match self.end() {
            End::Exited(code) => (rest, code),
            End::Signalled(signal) => panic!("signal {signal} ended the program: {rest}"),
        }
    }

    /// Waits for the program's end.
    pub fn end(self) -> End {
        match self.session.process().wait().expect("waiting for a child") {
            WaitStatus::Exited(_, code) => End::Exited(code),
            WaitStatus::Signaled(_, signal, _) => End::Signalled(signal as i32),
            other => panic!("not an end: {other:?}"),
        }
    }
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

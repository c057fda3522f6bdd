//! One running program: started, waited for until it serves, signalled, killed at the end, and its log shown if the
//! test fails.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{binary, eventually};

/// How a program is started; also how it is started again.
#[derive(Debug, Clone)]
pub struct ProgramBuilder {
    program: String,
    title: String,
    folder: PathBuf,
    arguments: Vec<std::ffi::OsString>,
    environment: Vec<(String, std::ffi::OsString)>,
}

impl ProgramBuilder {
    /// A program of ours; `title` names its log and ready file in `folder`.
    pub fn new(program: &str, title: &str, folder: &Path) -> Self {
        Self {
            program: program.to_owned(),
            title: title.to_owned(),
            folder: folder.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Gives a flag another value, or adds it.
    #[must_use]
    pub fn set(mut self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        let place = self.arguments.iter().position(|argument| argument == flag);
        match place.and_then(|place| self.arguments.get_mut(place + 1)) {
            Some(old) => value.as_ref().clone_into(old),
            None => return self.arg(flag).arg(value),
        }
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The ready file the program writes its address to.
    pub fn ready_file(&self) -> PathBuf {
        self.folder.join(format!("{}.ready", self.title))
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.title))
    }

    /// A command with none of our own settings in its environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(binary(&self.program));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("GPUFLEET_") || name.starts_with("GPUCTL_")) {
                command.env_remove(name);
            }
        }
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.folder);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self) -> Finished {
        let output = self
            .command()
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|e| panic!("cannot run `{}`: {e}", self.program));
        Finished {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts the program with its output on a pipe, for a test that reads it as it comes.
    pub fn spawn_piped(&self) -> Child {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|e| panic!("cannot start `{}`: {e}", self.program))
    }

    /// Starts the program with its standard output in a file.
    pub fn spawn_to(&self, file: &Path) -> Child {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(File::create(file).expect("a file")).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|e| panic!("cannot start `{}`: {e}", self.program))
    }

    /// Starts the program; its output goes to its log.
    pub fn spawn(self) -> Program {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("a log file");
        let child = self
            .command()
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start `{}`: {e}", self.program));
        Program { how: self, child, shown: false }
    }
}

/// What a program that has ended gave.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// The exit code; -1 when a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Fails unless the exit code is this one.
    #[allow(clippy::return_self_not_must_use, reason = "often the check is all that is wanted")]
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "exit code\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not JSON: {e}\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr))
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    how: ProgramBuilder,
    child: Child,
    shown: bool,
}

impl Program {
    /// Waits until the program serves and gives its address.
    pub fn address(&mut self) -> SocketAddr {
        let ready = self.how.ready_file();
        let title = self.how.title.clone();
        eventually(&format!("`{title}` serves"), || {
            if let Some(status) = self.child.try_wait().expect("waiting for a child") {
                panic!("`{title}` ended with {status} before it served:\n{}", self.log());
            }
            let text = fs::read_to_string(&ready).map_err(|e| format!("{}: {e}\n{}", ready.display(), self.log()))?;
            text.trim().parse().map_err(|e| format!("`{text}` is not an address: {e}"))
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.how.log_file()).unwrap_or_default()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a pid");
        kill_process(pid, signal).expect("signalling a child");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("waiting for a child").is_none()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let title = self.how.title.clone();
        eventually(&format!("`{title}` ends"), || self.child.try_wait().expect("waiting for a child").ok_or("it runs"))
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(self.how.ready_file());
    }

    /// Starts it again after its end, with other arguments if `change` makes any.
    pub fn start_again(&mut self, change: impl FnOnce(ProgramBuilder) -> ProgramBuilder) {
        self.kill();
        let how = change(self.how.clone());
        self.shown = true;
        *self = how.spawn();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() && !self.shown {
            eprintln!("--- log of `{}`\n{}---", self.how.title, self.log());
        }
    }
}

//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Looks at every GPU and GPU process of this host or of a fleet, and acts on them.
#[derive(Debug, Parser)]
#[command(name = "gpuctl", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 all done, 1 failed, 2 usage, 3 some hosts failed or are stale, 4 refused by policy, \
                        5 unreachable, 6 declined at the prompt, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// Show no colours. The variable NO_COLOR does the same.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_color: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Whom to ask, as said on the command line. `config` adds the environment and the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Connection {
    /// Use this context of the configuration file [env: GPUFLEET_CONTEXT].
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) context: Option<String>,
    /// Ask this aggregator; the port is 9461 unless given [env: GPUFLEET_AGGREGATOR].
    #[arg(long, global = true, value_name = "HOST[:PORT]", help_heading = "Global options")]
    pub(crate) aggregator: Option<String>,
    /// Ask this one agent and no aggregator; the port is 9460 unless given.
    #[arg(
        long,
        global = true,
        value_name = "HOST[:PORT]",
        conflicts_with = "aggregator",
        help_heading = "Global options"
    )]
    pub(crate) agent: Option<String>,
    /// Folder with ca.crt, tls.crt and tls.key [env: GPUFLEET_TLS_DIR].
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) tls_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run agent and aggregator on this machine over throw-away mutual TLS, and look at them.
    #[command(
        after_help = "Examples:\n  gpuctl up                       this machine as it is\n  gpuctl up --simulate 4x8        \
                            four simulated hosts of eight devices\n  gpuctl up --serve               keep it running for other terminals"
    )]
    Up(Up),
    /// Show devices and processes: of this host without any server, or of the fleet.
    #[command(
        after_help = "Examples:\n  gpuctl top\n  gpuctl top --once\n  gpuctl top --cluster --host node3 --sort gpu-memory"
    )]
    Top(Top),
    /// List processes on devices; on a host without devices, every process.
    Ps(Ps),
    /// List devices.
    Devices(List),
    /// List hosts and how fresh they are.
    Hosts(List),
    /// Show totals.
    Summary(Summary),
    /// Send a signal to processes, after showing them and asking.
    #[command(
        after_help = "Examples:\n  gpuctl kill host3:12345\n  gpuctl kill host3:12345 host4:99 --signal INT --wait 30s\n  \
                            gpuctl kill 4711                    a process of this host\n\nOnly `y` or `yes` acts. Without a terminal, --yes is required. \
                            What is signalled is the process that was shown: a reused pid is never hit."
    )]
    Kill(Kill),
    /// Make certificates and look at them.
    #[command(subcommand)]
    Pki(Pki),
    /// Choose which fleet to ask.
    #[command(subcommand)]
    Context(Context),
    /// Print the completion script of a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the version.
    Version,
}

/// What to look at, and how.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Selection {
    /// Only these hosts.
    #[arg(long = "host", value_name = "NAME", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
    /// Only these devices, by index or UUID.
    #[arg(long = "gpu", value_name = "INDEX|UUID", value_delimiter = ',')]
    pub(crate) gpus: Vec<String>,
    /// Only processes of these users, and the devices they use.
    #[arg(long = "user", value_name = "NAME", value_delimiter = ',')]
    pub(crate) users: Vec<String>,
    /// Only these processes, and the devices they use.
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = parse_pid)]
    pub(crate) pids: Vec<u32>,
    /// Sort by this column, such as gpu-memory, cpu, user, host.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) sort: Option<String>,
    /// Turn the order round; unknown values stay last.
    #[arg(long)]
    pub(crate) reverse: bool,
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For eyes; may change.
    #[default]
    Table,
    /// For eyes, every column.
    Wide,
    /// For programs; a contract.
    Json,
    /// JSON as YAML.
    Yaml,
    /// For spreadsheets; a contract.
    Csv,
    /// Names alone, one a line.
    Name,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Simulate H hosts of G devices each instead of this machine.
    #[arg(long, value_name = "HxG", value_parser = parse_simulation)]
    pub(crate) simulate: Option<(u32, u32)>,
    /// Print once and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print once as JSON and exit.
    #[arg(long, conflicts_with = "once")]
    pub(crate) json: bool,
    /// Keep running and print how to use it from another terminal.
    #[arg(long, conflicts_with_all = ["once", "json"])]
    pub(crate) serve: bool,
    /// Time between two samples.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Seed of the simulation.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "simulate")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The whole fleet, through the aggregator. Follows from --aggregator or --context on the command line.
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Print once and exit. So does an output that is no terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print once as JSON and exit.
    #[arg(long, conflicts_with = "once")]
    pub(crate) json: bool,
    /// Time between two refreshes.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Refresh each second, or at this interval, until interrupted.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = parse_interval)]
    pub(crate) watch: Option<Duration>,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Every process of the hosts, not only those on devices.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Debug, Default, Args)]
pub(crate) struct Summary {
    /// Group by this label of the inventory. May be given more than once.
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    pub(crate) group_by: Vec<String>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Refresh each second, or at this interval, until interrupted.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = parse_interval)]
    pub(crate) watch: Option<Duration>,
    /// Only these hosts.
    #[arg(long = "host", value_name = "NAME", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
    /// Only these devices, by index or UUID.
    #[arg(long = "gpu", value_name = "INDEX|UUID", value_delimiter = ',')]
    pub(crate) gpus: Vec<String>,
    /// Only processes of these users, and the devices they use.
    #[arg(long = "user", value_name = "NAME", value_delimiter = ',')]
    pub(crate) users: Vec<String>,
    /// Only these processes, and the devices they use.
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = parse_pid)]
    pub(crate) pids: Vec<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// Processes as HOST:PID, or PID on this host.
    #[arg(required = true, value_name = "HOST:PID", value_parser = parse_target)]
    pub(crate) targets: Vec<Target>,
    /// Signal by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    pub(crate) signal: u32,
    /// Wait until the process is gone and its device memory is free, at most this long.
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    pub(crate) wait: Option<Duration>,
    /// Show what would be signalled and stop.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Why, for the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}

/// One process as a person names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    /// `None` for this host.
    pub(crate) host: Option<String>,
    pub(crate) pid: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pki {
    /// Make a certificate authority.
    Init {
        /// Where to put ca.crt and ca.key.
        #[arg(long, value_name = "DIR", default_value = "gpufleet-ca")]
        dir: PathBuf,
        /// The domain in every identity, such as gpu.example.org.
        #[arg(long, value_name = "DOMAIN", default_value = "gpufleet.local")]
        trust_domain: String,
        /// How long it is valid, in days.
        #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: u64,
    },
    /// Issue a certificate.
    #[command(
        after_help = "Examples:\n  gpuctl pki issue agent node3\n  gpuctl pki issue user alice --out ~/.config/gpufleet/tls"
    )]
    Issue {
        /// What it is for: agent, aggregator, user or service.
        #[arg(value_parser = parse_role)]
        role: gpufleet_transport::Role,
        /// Its name: the host's, the person's, the program's.
        name: String,
        /// The authority's folder.
        #[arg(long, value_name = "DIR", default_value = "gpufleet-ca")]
        ca: PathBuf,
        /// Where to put ca.crt, tls.crt and tls.key [default: ROLE-NAME].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// How long it is valid, in days.
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: u64,
        /// DNS names beside the identity, for other software.
        #[arg(long = "dns", value_name = "NAME")]
        dns_names: Vec<String>,
        /// Addresses beside the identity, for other software.
        #[arg(long = "address", value_name = "IP")]
        addresses: Vec<IpAddr>,
        /// Replace the files that are there.
        #[arg(long)]
        replace: bool,
    },
    /// Show what certificates say.
    Show {
        /// Certificate files, or folders that hold some.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// How to print: table, json or yaml.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Context {
    /// List the contexts.
    List,
    /// Show a context; without a name, the one in use.
    Show {
        /// Its name.
        name: Option<String>,
    },
    /// Use a context from now on.
    Use {
        /// Its name.
        name: String,
    },
    /// Make or change a context.
    #[command(after_help = "The context takes --aggregator or --agent, and --tls-dir, from the command line.")]
    Set {
        /// Its name.
        name: String,
    },
    /// Remove a context.
    Remove {
        /// Its name.
        name: String,
    },
}

fn parse_simulation(text: &str) -> Result<(u32, u32), String> {
    let most = gpufleet_embed::MOST_SIMULATED_HOSTS;
    let form = || format!("write HOSTSxDEVICES, such as 4x8, with 1 to {most} hosts and 0 to 64 devices");
    let (hosts, devices) = text.split_once('x').ok_or_else(form)?;
    let (hosts, devices): (u32, u32) = (hosts.parse().map_err(|_| form())?, devices.parse().map_err(|_| form())?);
    if (1..=most).contains(&hosts) && devices <= 64 { Ok((hosts, devices)) } else { Err(form()) }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_duration(text, Duration::from_millis(100), Duration::from_hours(1))
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_duration(text, Duration::from_secs(1), Duration::from_mins(5))
}

fn parse_duration(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let length =
        humantime::parse_duration(text).map_err(|_| "write a length of time, such as 1s or 500ms".to_owned())?;
    if (least..=most).contains(&length) {
        return Ok(length);
    }
    let (least, most) = (humantime::format_duration(least), humantime::format_duration(most));
    Err(format!("must be from {least} to {most}"))
}

fn parse_target(text: &str) -> Result<Target, String> {
    let form = |why: String| format!("write HOST:PID, or PID for a process of this host: {why}");
    let (host, pid) = match text.rsplit_once(':') {
        None => (None, text),
        Some(("", _)) => return Err(form("there is no host before the colon".to_owned())),
        Some((host, pid)) => (Some(host.to_owned()), pid),
    };
    Ok(Target { host, pid: parse_pid(pid).map_err(form)? })
}

/// Digits alone, blanks around them aside: `+5` and `1_0` are typing mistakes.
fn parse_pid(text: &str) -> Result<u32, String> {
    let digits = text.trim_matches(' ');
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    number.filter(|pid| (1..=4_194_304).contains(pid)).ok_or_else(|| "a pid is a number from 1 to 4194304".to_owned())
}

fn parse_signal(text: &str) -> Result<u32, String> {
    crate::signals::parse(text).ok_or_else(|| {
        let names: Vec<&str> = crate::signals::NAMES.iter().map(|(name, _)| *name).collect();
        format!("write a number from 1 to 64 or one of {}", names.join(", "))
    })
}

fn parse_role(text: &str) -> Result<gpufleet_transport::Role, String> {
    text.parse().map_err(|error: gpufleet_transport::ParseIdentityError| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_summary_takes_the_filters_of_the_lists() {
        let line = ["gpuctl", "summary", "--host", "a", "--gpu", "0", "--user", "bob,eve", "--pid", "7", "--watch"];
        let Command::Summary(summary) = Cli::try_parse_from(line).unwrap().command else { panic!("not a summary") };
        assert_eq!((summary.hosts, summary.gpus), (vec!["a".to_owned()], vec!["0".to_owned()]));
        assert_eq!((summary.users.len(), summary.pids, summary.watch), (2, vec![7], Some(Duration::from_secs(1))));
    }

    #[test]
    fn targets_are_read_as_people_write_them() {
        let target = |host: Option<&str>, pid| Ok(Target { host: host.map(str::to_owned), pid });
        assert_eq!(parse_target("host3:12345"), target(Some("host3"), 12345));
        assert_eq!(parse_target("12345"), target(None, 12345));
        for wrong in
            ["", ":1", "host:1_0", "host:", "host:0", "host:-1", "host:+1", "host:x", "0", "99999999999", "4194305"]
        {
            assert!(parse_target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pids_are_digits_alone() {
        let ps = |pids: &str| match Cli::try_parse_from(["gpuctl", "ps", "--pid", pids]).map(|cli| cli.command) {
            Ok(Command::Ps(ps)) => Some(ps.list.selection.pids),
            _ => None,
        };
        assert_eq!(ps(" 1 , 2 "), Some(vec![1, 2]));
        for wrong in ["1,", ",", "+5", "1_0", "٣", "0", "-1", "4194305", "1 2"] {
            assert_eq!(ps(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for wrong in [
            &["gpuctl"][..],
            &["gpuctl", "top", "--once", "--json"],
            &["gpuctl", "top", "--interval", "0"],
            &["gpuctl", "ps", "--agent", "a:1", "--aggregator", "b:2"],
            &["gpuctl", "ps", "--watch=soon"],
            &["gpuctl", "kill"],
            &["gpuctl", "kill", "1", "--dry-run", "--yes"],
            &["gpuctl", "up", "--serve", "--once"],
            &["gpuctl", "up", "--seed", "3"],
            &["gpuctl", "pki", "issue", "nobody", "x"],
        ] {
            let error = Cli::try_parse_from(wrong).expect_err(&wrong.join(" "));
            assert_eq!(error.exit_code(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "gpuctl", &mut script);
            let script = String::from_utf8(script).unwrap();
            for part in ["summary", "dry-run", "group-by"] {
                assert!(script.contains(part), "{shell}: {part}");
            }
        }
    }

    #[test]
    fn simulations_and_lengths_have_bounds() {
        assert_eq!(parse_simulation("4x8"), Ok((4, 8)));
        for wrong in ["4", "x", "0x8", "4x65", "9999x1", "-1x2", "4x8x2"] {
            assert!(parse_simulation(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_wait("10s"), Ok(Duration::from_secs(10)));
        for wrong in ["10", "1ms", "1h", "soon", "-1s"] {
            assert!(parse_wait(wrong).is_err(), "{wrong}");
        }
    }
}

//! One fleet on loopback: a folder, a certificate authority, and the programs that use them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gpufleet_fake_nvml::SCENARIO_VARIABLE;
use gpufleet_transport::Role;
use tempfile::TempDir;

use crate::pki::Certificates;
use crate::scenario::{Device, Scenario};
use crate::{Driver, Program, ProgramBuilder, fake_nvml_library};

/// The name of the aggregator's certificate.
pub const AGGREGATOR: &str = "aggregator";

/// The person who may signal any process.
pub const OPERATOR: &str = "operator";

/// A folder with certificates, in which programs run. Everything is gone with it.
pub struct Sandbox {
    folder: TempDir,
    certificates: Certificates,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// An empty sandbox.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let certificates = Certificates::new(&folder.path().join("pki"));
        Self { folder, certificates }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its certificates.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// How the agent of a host is started, without a driver: it finds no device.
    pub fn agent_without_driver(&self, host: &str) -> ProgramBuilder {
        self.agent_with_library(host, &self.folder().join("no-such-library.so"))
    }

    /// How the agent of a host is started over a library that may not be there.
    pub fn agent_with_library(&self, host: &str, library: &Path) -> ProgramBuilder {
        let tls = self.certificates.of(Role::Agent, host);
        self.server("gpufleet-agent", host, &tls)
            .args(["--host-name", host, "--interval", "200ms", "--backend", "nvml", "--nvml-library"])
            .arg(library)
    }

    /// How the agent of a host is started over a fake driver.
    pub fn agent_with(&self, host: &str, driver: &Driver) -> ProgramBuilder {
        self.agent_with_library(host, &fake_nvml_library()).env(SCENARIO_VARIABLE, driver.path())
    }

    /// An agent with its driver, serving.
    pub fn agent(&self, host: &str, devices: Vec<Device>) -> Agent {
        self.agent_over(host, Driver::new(self.folder(), host, devices))
    }

    /// An agent over this driver, serving.
    pub fn agent_over(&self, host: &str, driver: Driver) -> Agent {
        let mut program = self.agent_with(host, &driver).spawn();
        let address = program.address();
        Agent { name: host.to_owned(), driver, program, address }
    }

    /// How an aggregator over these hosts is started.
    pub fn aggregator_of(&self, hosts: &[(&str, SocketAddr)]) -> ProgramBuilder {
        let hosts: Vec<_> = hosts.iter().map(|(name, address)| format!("{name}={address}")).collect();
        self.aggregator_from(AGGREGATOR, &hosts.join(","))
    }

    /// How an aggregator over an inventory is started.
    pub fn aggregator_from(&self, title: &str, hosts: &str) -> ProgramBuilder {
        let tls = self.certificates.of(Role::Aggregator, AGGREGATOR);
        self.server("gpufleet-aggregator", title, &tls)
            .args(["--hosts", hosts, "--operator", OPERATOR])
            .env("GPUFLEET_AGGREGATOR_FAN_IN__UNREACHABLE_AFTER", "4s")
            .env("GPUFLEET_AGGREGATOR_FAN_IN__RECONNECT_AFTER", "100ms")
            .env("GPUFLEET_AGGREGATOR_FAN_IN__RECONNECT_AT_MOST", "1s")
            .env("GPUFLEET_AGGREGATOR_SERVING__HEARTBEAT", "2s")
    }

    /// A server of ours that picks its port.
    pub fn server(&self, program: &str, title: &str, tls: &Path) -> ProgramBuilder {
        let builder = ProgramBuilder::new(program, title, self.folder());
        let ready = builder.ready_file();
        builder.args(["--listen", "127.0.0.1:0", "--ready-file"]).arg(ready).arg("--tls-dir").arg(tls)
    }

    /// A program of ours without arguments.
    pub fn program(&self, program: &str) -> ProgramBuilder {
        ProgramBuilder::new(program, program, self.folder())
    }

    /// `gpuctl` as a person of this name, towards an aggregator.
    pub fn gpuctl(&self, user: &str, aggregator: SocketAddr) -> ProgramBuilder {
        let tls = self.certificates.of(Role::User, user);
        self.gpuctl_with(&tls, aggregator)
    }

    /// `gpuctl` with these certificates, towards an aggregator.
    pub fn gpuctl_with(&self, tls: &Path, aggregator: SocketAddr) -> ProgramBuilder {
        self.plain_gpuctl().arg("--aggregator").arg(aggregator.to_string()).arg("--tls-dir").arg(tls)
    }

    /// `gpuctl` without any setting: its configuration folder is empty.
    pub fn plain_gpuctl(&self) -> ProgramBuilder {
        let home = self.home();
        ProgramBuilder::new("gpuctl", "gpuctl", self.folder())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("NO_COLOR", "1")
    }

    fn home(&self) -> PathBuf {
        let home = self.folder().join("home");
        std::fs::create_dir_all(&home).expect("a folder");
        home
    }
}

/// A running agent with its driver.
#[derive(Debug)]
pub struct Agent {
    /// The host's name.
    pub name: String,
    /// What its driver says.
    pub driver: Driver,
    /// The program.
    pub program: Program,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Agents, an aggregator that watches them, and who asks it.
pub struct Fleet {
    /// The agents.
    pub agents: Vec<Agent>,
    /// The aggregator.
    pub aggregator: Program,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where all that runs. Last, so that it goes last.
    pub sandbox: Sandbox,
}

impl Fleet {
    /// Hosts with these devices and an aggregator over them, which has seen all of them.
    pub fn start(hosts: Vec<(&str, Vec<Device>)>) -> Self {
        Self::start_with(hosts, |_| {})
    }

    /// The same with drivers that are changed before the agents start.
    pub fn start_with(hosts: Vec<(&str, Vec<Device>)>, change: impl Fn(&mut Scenario)) -> Self {
        let sandbox = Sandbox::new();
        let start = |(host, devices)| {
            let driver = Driver::new(sandbox.folder(), host, devices);
            driver.update(&change);
            sandbox.agent_over(host, driver)
        };
        let agents = hosts.into_iter().map(start).collect();
        Self::over(sandbox, agents)
    }

    /// A fleet of one agent, however that is started.
    pub fn of_one(sandbox: Sandbox, host: &str, driver: Driver, agent: ProgramBuilder) -> Self {
        let mut program = agent.spawn();
        let address = program.address();
        Self::over(sandbox, vec![Agent { name: host.to_owned(), driver, program, address }])
    }

    fn over(sandbox: Sandbox, agents: Vec<Agent>) -> Self {
        let addresses: Vec<_> = agents.iter().map(|agent| (agent.name.as_str(), agent.address)).collect();
        let mut aggregator = sandbox.aggregator_of(&addresses).spawn();
        let address = aggregator.address();
        let fleet = Self { agents, aggregator, address, sandbox };
        for agent in &fleet.agents {
            fleet.until_host_is(&agent.name, "connected");
        }
        fleet
    }

    /// Three hosts: two with H200s, one with a MIG card and an old one.
    pub fn of_three() -> Self {
        Self::start(vec![
            ("host1", vec![Device::h200(0), Device::h200(1)]),
            ("host2", vec![Device::h200(0)]),
            ("host3", vec![Device::a100_mig(0), Device::k80(1)]),
        ])
    }

    /// `gpuctl` as an operator.
    pub fn gpuctl<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> ProgramBuilder {
        self.sandbox.gpuctl(OPERATOR, self.address).args(arguments)
    }

    /// The JSON answer of a `gpuctl` command.
    #[track_caller]
    pub fn ask(&self, arguments: &[&str]) -> serde_json::Value {
        self.gpuctl(arguments).args(["-o", "json"]).run().expect_code(0).json()
    }

    /// Waits until the aggregator says so of a host: `connected`, `stale`, `unreachable` or `never_seen`.
    #[track_caller]
    pub fn until_host_is(&self, host: &str, state: &str) {
        let wanted = format!("CONNECTION_STATE_{}", state.to_uppercase());
        crate::eventually(&format!("`{host}` is {state}"), || {
            let hosts = self.hosts()?;
            match hosts.iter().find(|found| found.name == host) {
                Some(found) if found.state().as_str_name() == wanted => Ok(()),
                found => Err(format!("{found:#?}")),
            }
        });
    }

    /// The agent of a host.
    pub fn agent(&mut self, host: &str) -> &mut Agent {
        self.agents.iter_mut().find(|agent| agent.name == host).expect("a host of this fleet")
    }
}

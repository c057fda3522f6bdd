//! One simulated process: its life, its load, its answer to signals.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{
    ContextKind, Process, ProcessIdentity, ProcessInfo, ProcessReadings, ProcessState, Unknown, UseReadings,
};
use rand::RngExt;

use super::HOST_MEMORY_BYTES;
use super::device::percent;
use crate::sample::PidUse;
use crate::signal::SimulatedSignal;

/// Seconds a program takes to load its data onto the devices.
const WARM_UP_SECONDS: f64 = 12.0;

/// How a process uses its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Steady work with a pause now and then, when it saves what it has learnt.
    Training,
    /// Requests come and go.
    Serving,
    /// A person runs something now and then.
    Interactive,
    /// Holds memory and does nothing.
    Holding,
    /// Video: decodes, computes, encodes.
    Video,
}

/// One process on one device.
#[derive(Debug)]
pub(crate) struct Share {
    /// Index of the device.
    pub(crate) device: usize,
    /// Memory it will hold when warm.
    pub(crate) memory: u64,
    /// Present load, 0–1.
    pub(crate) load: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Alive,
    Stopped {
        end_on_continue: bool,
    },
    /// Asked to end: cleans up during one more tick.
    Ending,
    /// Gone at the next tick.
    Dead,
}

/// A process that runs.
#[derive(Debug)]
pub(crate) struct RunningProcess {
    /// What pins it.
    pub(crate) identity: ProcessIdentity,
    info: Arc<ProcessInfo>,
    profile: Profile,
    shares: Vec<Share>,
    age: f64,
    ends_at: u64,
    phase: Phase,
    burst: f64,
    cpu_percent: f64,
    cpu_seconds: f64,
    resident: u64,
    samples: u64,
}

/// What a process is born with.
pub(crate) struct Birth {
    pub(crate) identity: ProcessIdentity,
    pub(crate) info: ProcessInfo,
    pub(crate) profile: Profile,
    pub(crate) shares: Vec<Share>,
    /// Seconds it has already run.
    pub(crate) age: f64,
    /// The tick at which it ends by itself.
    pub(crate) ends_at: u64,
    pub(crate) resident: u64,
}

impl RunningProcess {
    pub(crate) fn new(birth: Birth) -> Self {
        Self {
            identity: birth.identity,
            info: Arc::new(birth.info),
            profile: birth.profile,
            shares: birth.shares,
            age: birth.age,
            ends_at: birth.ends_at,
            phase: Phase::Alive,
            burst: 0.5,
            cpu_percent: 0.0,
            cpu_seconds: birth.age * 0.9,
            resident: birth.resident,
            samples: 0,
        }
    }

    /// What it holds on each device.
    pub(crate) fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// How it uses its devices.
    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    /// Lets one interval pass.
    pub(crate) fn step(&mut self, tick: u64, interval: Duration, rng: &mut impl RngExt) {
        let seconds = interval.as_secs_f64();
        self.age += seconds;
        self.samples += 1;
        match self.phase {
            Phase::Alive if tick >= self.ends_at => self.phase = Phase::Ending,
            Phase::Ending => self.phase = Phase::Dead,
            Phase::Alive | Phase::Stopped { .. } | Phase::Dead => {}
        }
        if self.phase != Phase::Alive {
            self.cpu_percent = 0.0;
            self.shares.iter_mut().for_each(|share| share.load = 0.0);
            return;
        }
        let wanted = if self.age < WARM_UP_SECONDS { 0.04 } else { self.wanted_load(rng) };
        for share in &mut self.shares {
            let jitter = if wanted > 0.0 { rng.random_range(-0.03..0.03) } else { 0.0 };
            share.load = (share.load + (wanted - share.load) * 0.6 + jitter).clamp(0.0, 1.0);
            if wanted == 0.0 && share.load < 0.02 {
                share.load = 0.0;
            }
        }
        let devices = self.shares.len() as f64;
        let busy: f64 = self.shares.iter().map(|share| share.load).sum::<f64>();
        self.cpu_percent = (4.0 * devices.min(busy * 10.0) + 96.0 * busy) * rng.random_range(0.95..1.05);
        self.cpu_seconds += self.cpu_percent / 100.0 * seconds;
    }

    fn wanted_load(&mut self, rng: &mut impl RngExt) -> f64 {
        match self.profile {
            // A pause of six seconds every ten minutes.
            Profile::Training if self.age % 600.0 < 6.0 => 0.0,
            Profile::Training => 0.96,
            Profile::Serving | Profile::Video => {
                self.burst = (self.burst + rng.random_range(-0.12..0.12)).clamp(0.05, 0.95);
                self.burst
            }
            Profile::Interactive => {
                if self.burst > 0.0 && rng.random_bool(0.15) {
                    self.burst = 0.0;
                } else if rng.random_bool(0.02) {
                    self.burst = rng.random_range(0.2..0.9);
                }
                self.burst
            }
            Profile::Holding => 0.0,
        }
    }

    /// True once nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.phase == Phase::Dead
    }

    /// Delivers a signal, with the meaning it has for a program that handles none.
    pub(crate) fn signal(&mut self, signal: i32) -> SimulatedSignal {
        use rustix::process::Signal;
        let Some(signal) = Signal::from_named_raw(signal) else {
            return if signal == 0 || (32..=64).contains(&signal) {
                SimulatedSignal::Delivered
            } else {
                SimulatedSignal::InvalidSignal
            };
        };
        self.phase = match (self.phase, signal) {
            (Phase::Dead, _) | (_, Signal::KILL) => Phase::Dead,
            (Phase::Stopped { end_on_continue: true }, Signal::CONT) => Phase::Ending,
            (Phase::Stopped { end_on_continue: false }, Signal::CONT) => Phase::Alive,
            (Phase::Alive, Signal::STOP | Signal::TSTP | Signal::TTIN | Signal::TTOU) => {
                Phase::Stopped { end_on_continue: false }
            }
            (
                phase,
                Signal::CONT
                | Signal::STOP
                | Signal::TSTP
                | Signal::TTIN
                | Signal::TTOU
                | Signal::CHILD
                | Signal::URG
                | Signal::WINCH,
            ) => phase,
            (Phase::Stopped { .. }, _) => Phase::Stopped { end_on_continue: true },
            (Phase::Alive | Phase::Ending, _) => Phase::Ending,
        };
        SimulatedSignal::Delivered
    }

    /// Adds its use of each device to that device's list.
    pub(crate) fn add_uses(&self, uses: &mut [Vec<PidUse>]) {
        for share in &self.shares {
            let Some(list) = uses.get_mut(share.device) else { continue };
            let video = self.profile == Profile::Video;
            let bandwidth = if self.profile == Profile::Serving { 0.62 } else { 0.38 };
            list.push(PidUse {
                pid: self.identity.pid,
                kind: if video { ContextKind::ComputeAndGraphics } else { ContextKind::Compute },
                gpu_instance_id: None,
                compute_instance_id: None,
                readings: UseReadings {
                    memory_used_bytes: Ok(self.memory_held(share)),
                    sm_percent: Ok(percent(share.load)),
                    memory_bandwidth_percent: Ok(percent(share.load * bandwidth)),
                    encoder_percent: Ok(if video { percent(share.load * 0.5) } else { 0 }),
                    decoder_percent: Ok(if video { percent(share.load * 0.7) } else { 0 }),
                },
            });
        }
    }

    /// Grows while the program loads its data, in steps of the allocator.
    fn memory_held(&self, share: &Share) -> u64 {
        const STEP: u64 = 2 << 20;
        let warmth = (self.age / WARM_UP_SECONDS).clamp(0.05, 1.0);
        let mebibytes = super::device::round_u32(share.memory as f64 / f64::from(1 << 20) * warmth);
        ((u64::from(mebibytes) << 20) / STEP * STEP).min(share.memory)
    }

    /// The process as the sampler joins it; its uses are in the devices.
    pub(crate) fn to_model(&self) -> Process {
        let state = match self.phase {
            Phase::Stopped { .. } => ProcessState::Stopped,
            Phase::Alive if self.cpu_percent > 20.0 => ProcessState::Running,
            Phase::Alive | Phase::Ending => ProcessState::Sleeping,
            Phase::Dead => ProcessState::Zombie,
        };
        Process {
            identity: self.identity,
            info: Arc::clone(&self.info),
            state,
            readings: ProcessReadings {
                cpu_percent: if self.samples > 1 {
                    Ok((self.cpu_percent * 10.0).round() / 10.0)
                } else {
                    Err(Unknown::NotYet)
                },
                host_memory_bytes: Ok(self.resident),
                host_memory_percent: Ok(self.resident as f64 / HOST_MEMORY_BYTES as f64 * 100.0),
                cpu_time_seconds: Ok((self.cpu_seconds * 100.0).round() / 100.0),
                thread_count: Ok(u32::try_from(self.shares.len()).unwrap_or(u32::MAX).saturating_mul(24)),
            },
            uses: Vec::new(),
        }
    }
}

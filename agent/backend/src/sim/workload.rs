//! What runs on a simulated host: which programs start, when, on which devices, and for whom.

use std::time::{Duration, SystemTime};

use gpufleet_model::{ProcessIdentity, ProcessInfo, Visibility};
use rand::RngExt;

use super::device::{MEMORY_OVERHEAD, SimulatedDevice};
use super::process::{Birth, Profile, RunningProcess, Share};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Linux's default upper end of pids on 64-bit machines.
const PID_MAX: u32 = 4_194_304;
const TICKS_PER_SECOND: f64 = 100.0;
const USERS: [&str; 8] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];

/// Starts processes.
#[derive(Debug)]
pub(crate) struct Scheduler {
    interval: Duration,
    started_at: SystemTime,
    uptime_seconds: f64,
    next_pid: u32,
    next_job: u32,
}

/// One kind of program.
struct Program {
    profile: Profile,
    name: &'static str,
    /// Share of a device's memory it takes.
    memory: std::ops::Range<f64>,
    /// How long it runs, in seconds.
    seconds: std::ops::Range<f64>,
    resident: std::ops::Range<u64>,
}

const TRAINING: Program =
    Program { profile: Profile::Training, name: "python", memory: 0.55..0.9, seconds: 200.0..2400.0, resident: 6..48 };
const SERVING: Program = Program {
    profile: Profile::Serving,
    name: "VLLM::EngineCore",
    memory: 0.8..0.9,
    seconds: 600.0..20_000.0,
    resident: 4..20,
};
const INTERACTIVE: Program = Program {
    profile: Profile::Interactive,
    name: "python3",
    memory: 0.02..0.2,
    seconds: 300.0..6_000.0,
    resident: 1..8,
};
const HOLDING: Program =
    Program { profile: Profile::Holding, name: "python", memory: 0.1..0.5, seconds: 120.0..4_000.0, resident: 1..6 };
const VIDEO: Program =
    Program { profile: Profile::Video, name: "ffmpeg", memory: 0.01..0.03, seconds: 60.0..1800.0, resident: 1..3 };

impl Scheduler {
    pub(crate) fn new(interval: Duration, started_at: SystemTime, rng: &mut impl RngExt) -> Self {
        Self {
            interval,
            started_at,
            uptime_seconds: rng.random_range(2.0e5..4.0e6_f64).round(),
            next_pid: rng.random_range(2_000..400_000),
            next_job: rng.random_range(10_000..90_000),
        }
    }

    /// Puts the host to work, as it would be found at some moment.
    pub(crate) fn fill(
        &mut self,
        devices: &[SimulatedDevice],
        processes: &mut Vec<RunningProcess>,
        rng: &mut impl RngExt,
    ) {
        for _ in devices {
            if rng.random_bool(0.6) {
                self.start(0, true, devices, processes, rng);
            }
        }
    }

    /// Starts what arrives in one tick: on average one process per device and two minutes, if there is room.
    pub(crate) fn start_some(
        &mut self,
        tick: u64,
        devices: &[SimulatedDevice],
        processes: &mut Vec<RunningProcess>,
        rng: &mut impl RngExt,
    ) {
        let arrivals = devices.len() as f64 * self.interval.as_secs_f64() / 120.0;
        if rng.random_bool(arrivals.min(1.0)) {
            self.start(tick, false, devices, processes, rng);
        }
    }

    fn start(
        &mut self,
        tick: u64,
        already_running: bool,
        devices: &[SimulatedDevice],
        processes: &mut Vec<RunningProcess>,
        rng: &mut impl RngExt,
    ) {
        let (program, wanted) = match rng.random_range(0..100) {
            0..35 => (&TRAINING, [1, 2, 4, 8].get(rng.random_range(0..4)).copied().unwrap_or(1)),
            35..60 => (&SERVING, [1, 1, 2, 4].get(rng.random_range(0..4)).copied().unwrap_or(1)),
            60..80 => (&INTERACTIVE, 1),
            80..93 => (&HOLDING, 1),
            _ => (&VIDEO, 1),
        };
        let shares = place(program, wanted, devices, processes, rng);
        if shares.is_empty() {
            return;
        }
        let age = if already_running { rng.random_range(0.0..program.seconds.end).round() } else { 0.0 };
        let remaining = rng.random_range(program.seconds.clone()) / self.interval.as_secs_f64();
        let ends_at = tick.saturating_add(u64::from(super::device::round_u32(remaining)));
        let identity = self.identity(tick, age, processes, rng);
        let info = self.info(program, &shares, tick, age, rng);
        let resident = rng.random_range(program.resident.clone()) * GIB + rng.random_range(0..1024) * MIB;
        processes.push(RunningProcess::new(Birth {
            identity,
            info,
            profile: program.profile,
            shares,
            age,
            ends_at,
            resident,
        }));
    }

    fn seconds_at(&self, tick: u64) -> f64 {
        self.interval.as_secs_f64() * tick as f64
    }

    fn identity(
        &mut self,
        tick: u64,
        age: f64,
        processes: &[RunningProcess],
        rng: &mut impl RngExt,
    ) -> ProcessIdentity {
        loop {
            let pid = self.next_pid;
            self.next_pid += rng.random_range(1..40);
            if self.next_pid >= PID_MAX {
                self.next_pid = 300 + rng.random_range(0..100);
            }
            if processes.iter().all(|process| process.identity.pid != pid) {
                let since_boot = (self.uptime_seconds + self.seconds_at(tick) - age).max(1.0);
                let start_ticks = Duration::from_secs_f64(since_boot * TICKS_PER_SECOND).as_secs();
                return ProcessIdentity { pid, start_ticks };
            }
        }
    }

    fn info(&mut self, program: &Program, shares: &[Share], tick: u64, age: f64, rng: &mut impl RngExt) -> ProcessInfo {
        let who = rng.random_range(0..USERS.len());
        let user = USERS.get(who).copied().unwrap_or("alice");
        let user_id = 1000 + u32::try_from(who).unwrap_or(0);
        let started_at = self.started_at + Duration::from_secs_f64(self.seconds_at(tick));
        let mut info = ProcessInfo {
            visibility: Visibility::Visible,
            parent_pid: Some(1),
            user_id: Some(user_id),
            user: Some(user.to_owned()),
            name: program.name.chars().take(15).collect(),
            arguments: arguments(program, user, shares.len(), rng).into_iter().map(String::into_bytes).collect(),
            started_at: started_at.checked_sub(Duration::from_secs_f64(age)),
            kernel_thread: false,
            cgroup: None,
            systemd_unit: None,
            container_id: None,
            pod_uid: None,
            slurm_job_id: None,
            slurm_step: None,
        };
        match program.profile {
            Profile::Training | Profile::Holding => {
                self.next_job += rng.random_range(1..9);
                let job = self.next_job;
                info.cgroup = Some(format!("/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0"));
                info.slurm_job_id = Some(job.to_string());
                info.slurm_step = Some(String::from("0"));
            }
            Profile::Serving => {
                let [a, b, c, d] = rng.random::<[u64; 4]>();
                let container = format!("{a:016x}{b:016x}{c:016x}{d:016x}");
                info.cgroup = Some(format!("/system.slice/docker-{container}.scope"));
                info.systemd_unit = Some(format!("docker-{container}.scope"));
                info.container_id = Some(container);
            }
            Profile::Interactive | Profile::Video => {
                let unit = format!("session-{}.scope", rng.random_range(1..400));
                info.cgroup = Some(format!("/user.slice/user-{user_id}.slice/{unit}"));
                info.systemd_unit = Some(unit);
            }
        }
        info
    }
}

/// Finds devices with room; programs that compute all the time keep out of each other's way. Empty when there are not
/// enough of them.
fn place(
    program: &Program,
    wanted: usize,
    devices: &[SimulatedDevice],
    processes: &[RunningProcess],
    rng: &mut impl RngExt,
) -> Vec<Share> {
    let heavy = |profile| matches!(profile, Profile::Training | Profile::Serving);
    let fraction = rng.random_range(program.memory.clone());
    let mut room: Vec<(usize, u64)> = devices
        .iter()
        .enumerate()
        .filter_map(|(index, device)| {
            let hardware = device.hardware();
            let on_device = processes
                .iter()
                .flat_map(|process| process.shares().iter().map(move |share| (process.profile(), share)))
                .filter(|(_, share)| share.device == index);
            let mut held = MEMORY_OVERHEAD + hardware.memory_reserved;
            for (profile, share) in on_device {
                if heavy(program.profile) && heavy(profile) {
                    return None;
                }
                held += share.memory;
            }
            let wanted = u64::from(super::device::round_u32(hardware.memory_total as f64 * fraction / MIB as f64));
            let free = hardware.memory_total.saturating_sub(held);
            (free > wanted * MIB).then_some((index, wanted * MIB))
        })
        .collect();
    // A rotation keeps light programs from piling up on the first device.
    if !room.is_empty() {
        let turn = rng.random_range(0..room.len());
        room.rotate_left(turn);
    }
    if room.len() < wanted {
        return Vec::new();
    }
    room.truncate(wanted);
    room.sort_unstable();
    room.into_iter().map(|(device, memory)| Share { device, memory, load: 0.0 }).collect()
}

fn arguments(program: &Program, user: &str, devices: usize, rng: &mut impl RngExt) -> Vec<String> {
    let text = match program.profile {
        Profile::Training => {
            let batch = 1 << rng.random_range(3..9);
            let seed = rng.random_range(0..1000);
            format!(
                "python train.py --config configs/pretrain-{}b.yaml --devices {devices} --batch-size {batch} --seed \
                 {seed}",
                [1, 3, 7, 13].get(rng.random_range(0..4)).copied().unwrap_or(7)
            )
        }
        Profile::Serving => {
            let model = ["example/chat-70b", "example/chat-8b", "example/embed-large", "example/code-34b"];
            let model = model.get(rng.random_range(0..4)).copied().unwrap_or("example/chat-8b");
            format!(
                "vllm serve {model} --tensor-parallel-size {devices} --gpu-memory-utilization 0.9 --port {}",
                8000 + rng.random_range(0..100)
            )
        }
        Profile::Interactive => {
            format!("python3 -m ipykernel_launcher -f /home/{user}/.local/share/jupyter/runtime/kernel.json")
        }
        Profile::Holding => format!("python /home/{user}/notebooks/evaluate.py --wait"),
        Profile::Video => String::from("ffmpeg -hwaccel cuda -i input.mp4 -c:v h264_nvenc output.mp4"),
    };
    text.split_whitespace().map(str::to_owned).collect()
}

//! Policies, and the violations the engine reports.
//!
//! The library calls back on threads of its own, at times that cannot be foreseen, even while a registration ends. So a
//! callback gets no pointer to anything of ours: it finds the receiver in one table by a number, and only hands the
//! violation over. In 3.x a callback gets no number and is told no GPU; every subscription there gets every violation.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Answer, Library};
use crate::entity::{Group, Handle};
use crate::error::DcgmError;
use crate::field::FieldId;
use crate::policy::{Conditions, ErrorLocation, PolicyCallbackV1, PolicyCallbackV2, PolicyV1, RawViolation};
use crate::symbols::Symbols;
use crate::version::{Major, Versioned as _, Zeroable as _};

/// A condition that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The GPU; 3.x does not tell.
    pub gpu: Option<u32>,
    /// When, in microseconds since 1970.
    pub timestamp: i64,
    /// What.
    pub kind: ViolationKind,
}

/// What was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViolationKind {
    /// Uncorrectable memory errors.
    DoubleBitError {
        /// Where.
        location: ErrorLocation,
        /// How many.
        count: u32,
    },
    /// PCIe replays: the counter.
    PciReplay(u32),
    /// Pages were retired.
    RetiredPages {
        /// For correctable errors.
        single_bit: u32,
        /// For uncorrectable errors.
        double_bit: u32,
    },
    /// A temperature in °C.
    Thermal(u32),
    /// A power draw in watts.
    Power(u32),
    /// NVLink errors.
    Nvlink {
        /// The field that counts them.
        field: FieldId,
        /// The counter.
        counter: u32,
    },
    /// An XID.
    Xid(u32),
    /// A condition this crate does not know.
    Other(Conditions),
}

struct Receiver {
    major: Major,
    sender: SyncSender<Violation>,
    dropped: Arc<AtomicU64>,
}

static RECEIVERS: Mutex<BTreeMap<u64, Receiver>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

fn receivers() -> MutexGuard<'static, BTreeMap<u64, Receiver>> {
    RECEIVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, violations are handed over. End the registration itself with
/// [`policy_unregister`](Library::policy_unregister).
#[derive(Debug)]
pub struct PolicySubscription {
    number: u64,
    dropped: Arc<AtomicU64>,
}

impl PolicySubscription {
    fn new(major: Major, sender: SyncSender<Violation>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dropped = Arc::new(AtomicU64::new(0));
        receivers().insert(number, Receiver { major, sender, dropped: Arc::clone(&dropped) });
        Self { number, dropped }
    }

    /// How many violations were lost because the channel was full or its other end gone.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for PolicySubscription {
    fn drop(&mut self) {
        receivers().remove(&self.number);
    }
}

impl Library {
    /// Sets the policy of a group. Its version word is set here.
    #[doc(alias = "dcgmPolicySet")]
    pub fn policy_set(&self, engine: Handle, group: Group, policy: PolicyV1) -> Answer<()> {
        let mut policy = policy;
        policy.set_version();
        // SAFETY: a struct of the version its word tells; no status handle.
        DcgmError::check(unsafe { (self.symbols.dcgmPolicySet)(engine, group, &raw mut policy, 0) })
    }

    /// The policies of a group's devices. `count` is the number of devices in it.
    #[doc(alias = "dcgmPolicyGet")]
    pub fn policy_get(&self, engine: Handle, group: Group, count: usize) -> Answer<Vec<PolicyV1>> {
        let mut policies = Vec::with_capacity(count);
        policies.resize_with(count, || {
            let mut policy = PolicyV1::zeroed();
            policy.set_version();
            policy
        });
        let count = i32::try_from(count).map_err(|_| DcgmError::MAX_LIMIT)?;
        // SAFETY: as many structs as `count` says, each of the version its word tells; no status handle.
        let code = unsafe { (self.symbols.dcgmPolicyGet)(engine, group, count, policies.as_mut_ptr(), 0) };
        DcgmError::check(code).map(|()| policies)
    }

    /// Registers for violations of a group. The engine reports one per condition, GPU and five seconds at most.
    #[doc(alias = "dcgmPolicyRegister")]
    #[doc(alias = "dcgmPolicyRegister_v2")]
    pub fn policy_register(
        &self,
        engine: Handle,
        group: Group,
        conditions: Conditions,
        sender: SyncSender<Violation>,
    ) -> Answer<PolicySubscription> {
        let subscription = PolicySubscription::new(self.major, sender);
        DcgmError::check(register(&self.symbols, self.major, (engine, group, conditions), subscription.number)?)?;
        Ok(subscription)
    }

    /// Ends the reports.
    #[doc(alias = "dcgmPolicyUnregister")]
    pub fn policy_unregister(&self, engine: Handle, group: Group, conditions: Conditions) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmPolicyUnregister)(engine, group, conditions) })
    }
}

fn register(
    symbols: &Symbols,
    major: Major,
    (engine, group, conditions): (Handle, Group, Conditions),
    number: u64,
) -> Answer<i32> {
    Ok(match major {
        Major::V3 => {
            let call = symbols.dcgmPolicyRegister.ok_or(DcgmError::FUNCTION_NOT_FOUND)?;
            // One violation makes both calls, so the second is not looked at.
            // SAFETY: the callbacks live as long as the process.
            unsafe { call(engine, group, conditions, received_3, finished_3) }
        }
        Major::V4 => {
            let call = symbols.dcgmPolicyRegister_v2.ok_or(DcgmError::FUNCTION_NOT_FOUND)?;
            // SAFETY: the callback lives as long as the process.
            unsafe { call(engine, group, conditions, received_4, number) }
        }
    })
}

unsafe extern "C" fn received_3(response: *mut c_void) -> i32 {
    // SAFETY: 3.x hands over null or this struct, which lives until this returns.
    if let Some(response) = unsafe { response.cast::<PolicyCallbackV1>().as_ref() } {
        let violation = violation(response.condition, &response.violation, None);
        receivers().values().filter(|receiver| receiver.major == Major::V3).for_each(|to| hand_over(to, violation));
    }
    0
}

unsafe extern "C" fn finished_3(_response: *mut c_void) -> i32 {
    0
}

unsafe extern "C" fn received_4(response: *mut PolicyCallbackV2, number: u64) -> i32 {
    // SAFETY: 4.x hands over null or this struct, which lives until this returns.
    if let Some(response) = unsafe { response.as_ref() } {
        let violation = violation(response.condition, &response.violation, Some(response.gpu));
        if let Some(receiver) = receivers().get(&number) {
            hand_over(receiver, violation);
        }
    }
    0
}

fn hand_over(receiver: &Receiver, violation: Violation) {
    if receiver.sender.try_send(violation).is_err() {
        receiver.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn violation(condition: Conditions, raw: &RawViolation, gpu: Option<u32>) -> Violation {
    // SAFETY: the condition tells the member; every member is numbers, which any bytes are, and starts with the time.
    let (timestamp, kind) = unsafe {
        let kind = match condition {
            Conditions::DOUBLE_BIT_ERROR => ViolationKind::DoubleBitError {
                location: raw.double_bit_error.location,
                count: raw.double_bit_error.count,
            },
            Conditions::PCI_REPLAY => ViolationKind::PciReplay(raw.pci_replay.counter),
            Conditions::RETIRED_PAGES => ViolationKind::RetiredPages {
                single_bit: raw.retired_pages.single_bit,
                double_bit: raw.retired_pages.double_bit,
            },
            Conditions::THERMAL => ViolationKind::Thermal(raw.number.number),
            Conditions::POWER => ViolationKind::Power(raw.number.number),
            Conditions::NVLINK => ViolationKind::Nvlink { field: raw.nvlink.field, counter: raw.nvlink.counter },
            Conditions::XID => ViolationKind::Xid(raw.number.number),
            other => ViolationKind::Other(other),
        };
        (raw.number.timestamp, kind)
    };
    Violation { gpu, timestamp, kind }
}

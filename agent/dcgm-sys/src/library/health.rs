//! DCGM's health watches.

use std::ffi::c_void;
use std::time::Duration;

use super::{Answer, Library};
use crate::entity::{Entity, Group, Handle};
use crate::error::DcgmError;
use crate::health::{HealthResponseV4, HealthResponseV5, HealthResult, HealthSetV2, HealthSystems, RawIncident};
use crate::text::text;
use crate::version::{Major, Versioned, Zeroable as _};

/// A result no library gives: stands in a response until it is filled.
const UNFILLED: HealthResult = HealthResult(i32::MIN);

/// What a health check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// The worst finding. PASS means little while the report is incomplete.
    pub overall: HealthResult,
    /// The findings.
    pub incidents: Vec<Incident>,
    /// Why it does not cover everything: DCGM 3 can answer NOT_WATCHED and report all the same.
    pub incomplete: Option<DcgmError>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// Where: trust this, not a number in the message.
    pub entity: Entity,
    /// The parts of the device, as a mask: for a lost GPU every bit is set.
    pub systems: HealthSystems,
    /// How bad.
    pub health: HealthResult,
    /// DCGM's number of the error.
    pub code: u32,
    /// DCGM's text.
    pub message: String,
}

impl From<&RawIncident> for Incident {
    fn from(raw: &RawIncident) -> Self {
        Self {
            entity: raw.entity,
            systems: raw.system,
            health: raw.health,
            code: raw.error.code,
            message: text(&raw.error.message).into_owned(),
        }
    }
}

impl Library {
    /// Watches these parts of a group's devices. PCIe, temperature and power need about a minute of samples before a
    /// check says much.
    #[doc(alias = "dcgmHealthSet_v2")]
    pub fn health_set(
        &self,
        engine: Handle,
        group: Group,
        systems: HealthSystems,
        every: Duration,
        keep: Duration,
    ) -> Answer<()> {
        let mut parameters = HealthSetV2::zeroed();
        parameters.set_version();
        parameters.group = group;
        parameters.systems = systems;
        parameters.update_interval = i64::try_from(every.as_micros()).map_err(|_| DcgmError::BAD_PARAMETER)?;
        parameters.keep_age = keep.as_secs_f64();
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { (self.symbols.dcgmHealthSet_v2)(engine, &raw mut parameters) })
    }

    /// What is watched.
    #[doc(alias = "dcgmHealthGet")]
    pub fn health_systems(&self, engine: Handle, group: Group) -> Answer<HealthSystems> {
        let mut systems = HealthSystems::EMPTY;
        // SAFETY: a place for the mask.
        DcgmError::check(unsafe { (self.symbols.dcgmHealthGet)(engine, group, &raw mut systems) })?;
        Ok(systems)
    }

    /// Judges a group's devices by what was sampled.
    #[doc(alias = "dcgmHealthCheck")]
    pub fn health_check(&self, engine: Handle, group: Group) -> Answer<HealthReport> {
        match self.major {
            Major::V3 => {
                let mut response = HealthResponseV4::boxed();
                response.overall = UNFILLED;
                let code = self.health_check_into(engine, group, &mut *response);
                report(code, response.overall, response.count, &response.incidents)
            }
            Major::V4 => {
                let mut response = HealthResponseV5::boxed();
                response.overall = UNFILLED;
                let code = self.health_check_into(engine, group, &mut *response);
                report(code, response.overall, response.count, &response.incidents)
            }
        }
    }

    fn health_check_into<T: Versioned>(&self, engine: Handle, group: Group, response: &mut T) -> i32 {
        let pointer: *mut T = response;
        // SAFETY: a struct of the version its word tells; the library looks at the word.
        unsafe { (self.symbols.dcgmHealthCheck)(engine, group, pointer.cast::<c_void>()) }
    }
}

fn report(code: i32, overall: HealthResult, count: u32, incidents: &[RawIncident]) -> Answer<HealthReport> {
    let incomplete = match DcgmError::check(code) {
        Ok(()) => None,
        Err(DcgmError::NOT_WATCHED) if overall != UNFILLED => Some(DcgmError::NOT_WATCHED),
        Err(error) => return Err(error),
    };
    if overall == UNFILLED {
        return Err(DcgmError::GENERIC);
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(HealthReport { overall, incidents: incidents.iter().take(count).map(Incident::from).collect(), incomplete })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_filled_nothing_is_no_clean_bill_of_health() {
        assert_eq!(report(-16, UNFILLED, 0, &[]), Err(DcgmError::NOT_WATCHED));
        assert_eq!(report(0, UNFILLED, 0, &[]), Err(DcgmError::GENERIC));
        assert_eq!(report(-12, HealthResult::PASS, 0, &[]), Err(DcgmError::VERSION_MISMATCH));
    }

    #[test]
    fn a_report_with_holes_says_so() {
        let holes = report(-16, HealthResult::PASS, 0, &[]).unwrap();
        assert_eq!((holes.overall, holes.incomplete), (HealthResult::PASS, Some(DcgmError::NOT_WATCHED)));
        assert_eq!(report(0, HealthResult::PASS, 0, &[]).unwrap().incomplete, None);
    }

    #[test]
    fn a_count_beyond_the_array_reads_only_the_array() {
        let incident = RawIncident { health: HealthResult::FAIL, ..RawIncident::zeroed() };
        assert_eq!(report(0, HealthResult::FAIL, u32::MAX, &[incident]).unwrap().incidents.len(), 1);
    }
}

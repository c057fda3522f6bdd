//! Judged health and device events.

use gpufleet_model::DeviceKey;
use gpufleet_model::health::{DeviceEvent, DeviceHealth, SuggestedAction, Verdict, Xid};

use super::timestamp;
use crate::v1;

/// A verdict for the wire.
pub fn verdict_to_wire(verdict: Verdict) -> v1::Verdict {
    match verdict {
        Verdict::Healthy => v1::Verdict::Healthy,
        Verdict::Degraded => v1::Verdict::Degraded,
        Verdict::Unreliable => v1::Verdict::Unreliable,
        Verdict::Critical => v1::Verdict::Critical,
        _ => v1::Verdict::Unknown,
    }
}

/// An action for the wire.
pub fn action_to_wire(action: SuggestedAction) -> v1::SuggestedAction {
    match action {
        SuggestedAction::Drain => v1::SuggestedAction::Drain,
        SuggestedAction::Reset => v1::SuggestedAction::Reset,
        SuggestedAction::Reboot => v1::SuggestedAction::Reboot,
        SuggestedAction::Replace => v1::SuggestedAction::Replace,
        _ => v1::SuggestedAction::Monitor,
    }
}

/// A device's health for the wire.
pub fn device_health(key: DeviceKey, uuid: &str, health: &DeviceHealth) -> v1::DeviceHealth {
    let incidents = health.incidents.iter().map(|incident| v1::Incident {
        code: incident.code.to_string(),
        severity: verdict_to_wire(incident.severity).into(),
        summary: incident.summary.clone(),
        since: Some(timestamp(incident.since)),
        evidence: incident
            .evidence
            .iter()
            .map(|evidence| v1::Evidence {
                field: evidence.field.to_owned(),
                value: evidence.value,
                limit: evidence.limit,
                sampled_at: Some(timestamp(evidence.sampled_at)),
            })
            .collect(),
        suggested_action: action_to_wire(incident.action).into(),
    });
    v1::DeviceHealth {
        device_key: key.0,
        device_uuid: uuid.to_owned(),
        verdict: verdict_to_wire(health.verdict).into(),
        incidents: incidents.collect(),
        judged_at: Some(timestamp(health.judged_at)),
    }
}

/// A device event for the wire.
pub fn device_event(event: &DeviceEvent) -> v1::DeviceEvent {
    let xid = event.xid.map(Xid::of);
    let severity = match xid.map(|xid| xid.class.severity()) {
        Some(Some(severity)) => verdict_to_wire(severity),
        // Says nothing of the device.
        Some(None) => v1::Verdict::Healthy,
        None => v1::Verdict::Unknown,
    };
    let action = xid.map_or(SuggestedAction::Monitor, |xid| xid.action);
    v1::DeviceEvent {
        device_uuid: event.device_uuid.clone().unwrap_or_default(),
        occurred_at: Some(timestamp(event.occurred_at)),
        xid: event.xid,
        code: xid.map_or_else(|| "EVENT".to_owned(), |xid| format!("XID_{}_{}", xid.code, xid.mnemonic)),
        summary: event.summary.clone(),
        severity: severity.into(),
        suggested_action: action_to_wire(action).into(),
        source: event.source.to_owned(),
    }
}
